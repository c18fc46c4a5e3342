// What a job's configuration may leave open and a caller states, the same for every trainer.
#pragma once

#include <optional>
#include <string>

#include "jobs/job.hpp"
#include "jobs/job_keys.hpp"
#include "jobs/job_machine.hpp"

namespace panpipe::jobs {

struct JobOptions {
  std::string cluster = {};          // file or shipped name; empty: nodes of eight H100
  std::optional<int> gpus = {};      // of the job
  std::string model = {};            // config.json, as the scenario names it
  std::optional<int> sequence = {};  // tokens of a sample
  std::optional<int> micro = {};     // samples of a microbatch
};

// The configuration parsed from YAML or JSON. Throws InputError with places; more than 1 MiB is no configuration.
JobKeys job_keys(const std::string& text, const std::string& name);

// The model of --model and --sequence; `sequence` is the job's own length, with its key. Throws InputError where the first is
// missing: `trainer`'s configuration holds no model.
void put_stated_model(ImportedJob& job, const JobOptions& options, std::optional<int> sequence = {},
                      const std::string& origin = "");

// Samples of a microbatch: `stated` where there is one, else --micro, else 1, which is assumed.
int micro_batch(ImportedJob& job, const JobOptions& options, std::optional<int> stated, const std::string& origin);

// What every import of a configuration file has: the file's keys, what the command line says besides, and the job it makes.
class ConfigurationImport {
 protected:
  // `options` must outlive it.
  ConfigurationImport(std::string trainer, JobKeys keys, const JobOptions& options) : keys_(std::move(keys)), options_(options) {
    job_.trainer = std::move(trainer);
    job_.source = keys_.name();
  }

  JobKeys keys_;
  const JobOptions& options_;
  ImportedJob job_;
};

// Moves what is left in the keys to the job's lists.
void tell_rest(ImportedJob& job, JobKeys& keys, const std::vector<std::string>& not_modelled,
               const std::vector<std::string>& without_effect);

// The optimizer of torch.optim's or DeepSpeed's names; any other is told, and AdamW is predicted.
void put_optimizer(ImportedJob& job, const std::string& name, const std::string& origin);

}  // namespace panpipe::jobs
