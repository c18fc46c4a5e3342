// Values that a job's configuration may lack and the caller supplies, the same for every trainer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/degrees/degrees.hpp"
#include "jobs/job.hpp"
#include "jobs/job_keys.hpp"
#include "jobs/job_machine.hpp"
#include "jobs/shared_keys.hpp"
#include "jobs/shell/launch_script.hpp"
#include "jobs/trainer_data.hpp"

namespace panpipe::jobs {

// The model of a captured job.
struct CapturedModel {
  std::string config;  // keys of config.json as YAML flow text
  int layers = 0;      // 0: not known
};

struct JobOptions {
  std::string cluster = {};      // file or shipped name; empty: nodes of eight H100
  std::optional<int> gpus = {};  // of the job
  std::string gpus_origin = "--gpus";
  std::string model = {};                   // config.json, as named in the scenario
  std::optional<int> sequence = {};         // tokens per sample
  std::optional<int> micro = {};            // samples per microbatch
  std::optional<int> vocabulary = {};       // Megatron: tokens of the tokenizer, if the arguments do not state them
  std::vector<std::string> overrides = {};  // torchtitan: words after the file: "--parallelism.tensor_parallel_degree", "2"
  std::string captured_release = {};        // of the trainer that a captured job is of; empty: not captured
  std::optional<CapturedModel> captured_model = {};  // where --model states none
  std::string captured_trainer = {};                 // empty: the job was not captured
  std::vector<std::string> captured_remarks = {};    // what the capture left open
  LaunchOptions script = {};                         // Megatron: what a launch script leaves open
  std::optional<int> launch = {};                    // of a script with several: which of them, from 1
  bool keeps_unknown = false;                        // returns a job with `unknown` instead of throwing
};

// Parses the configuration from YAML or JSON. Throws InputError with places, and for more than 1 MiB of text.
JobKeys job_keys(const std::string& text, const std::string& name);

// Sets the model from --model and --sequence; `sequence` is the job's own length, and `origin` its key. Throws InputError without
// --model, because `trainer`'s configuration contains no model.
void put_stated_model(ImportedJob& job, const JobOptions& options, std::optional<int> sequence = {},
                      const std::string& origin = "");

// Samples per microbatch: `stated` if present, else --micro, else 1 with a recorded assumption.
int micro_batch(ImportedJob& job, const JobOptions& options, std::optional<int> stated, const std::string& origin);

// Base of the imports of configuration files: the file's keys, the options from the command line, and the resulting job.
class ConfigurationImport {
 protected:
  // `options` must outlive it.
  ConfigurationImport(std::string trainer, JobKeys keys, const JobOptions& options) : keys_(std::move(keys)), options_(options) {
    job_.trainer = std::move(trainer);
    job_.source = keys_.name();
    if (options.model.empty())
      for (const std::string& remark : options.captured_remarks) job_.assumptions.push_back("of the capture: " + remark + ".");
  }
  // The GPUs that the options state, else the fewest whole nodes for one replica of `ranks`.
  JobMachine machine(int ranks) {
    return options_.gpus ? JobMachine{*options_.gpus, kGpusOfANode, options_.gpus_origin} : assumed_machine(job_, ranks);
  }
  // State on the host, as put_offload has it: `place` is the key that names its place.
  void read_offload(const std::string& part, const std::string& place) {
    put_offload(job_, part, keys_.text(place).value_or("none"), place);
  }
  // What the configuration leaves to the training script.
  void assume_optimizer();
  void assume_no_recompute();
  // Ranks of a replica. Throws InputError for more than kMostRanks.
  int ranks_of_replica() const;
  // Completes the degrees by the machine's, and sets them with their origins and the cluster.
  void put_degrees(const JobMachine& machine, const std::string& pipeline, const std::string& tensor);

  JobKeys keys_;
  const JobOptions& options_;
  ImportedJob job_;
  Degrees degrees_ = {};
  const char* context_ = "context";  // the trainer's word for that degree

 private:
  std::string replica_text() const;
};

// Moves unread keys to the job's lists.
void report_rest(ImportedJob& job, JobKeys& keys, const UnreadKeys& unread);

// Sets the optimizer from torch.optim's or DeepSpeed's name. Any other name is reported, and AdamW is predicted.
void put_optimizer(ImportedJob& job, const std::string& name, const std::string& origin);

}  // namespace panpipe::jobs
