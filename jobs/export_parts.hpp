// Shared by the exporters. Internal to this folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/workload/transformer.hpp"
#include "jobs/edit/document_edits.hpp"
#include "jobs/export.hpp"

namespace panpipe::jobs {

// The family with this order, regardless of the plan's name for it, and the length of a turn in microbatches if it differs from
// the family's default. nullopt if the order belongs to none of `names`.
struct KnownOrder {
  std::string family;
  int turn = 0;  // interleaved-1f1b: 0 = the family's default
};
std::optional<KnownOrder> known_order(const Schedule& schedule, const std::vector<std::string>& names);

// Number of layers of each stage, in the order of the forward path. The embedding belongs to the first, the loss to the last.
// Throws InputError if a stage begins or ends inside a layer, or if the units are not layers.
std::vector<int> layers_of_stages(const ExportRequest& request, std::string_view trainer);

// The heading of a file, "estimated by panpipe ...", with `mark` ("# ") before each line. Control characters in names become
// blanks, so that no text of a scenario can become a line of the file.
std::string head_text(const ExportRequest& request, std::string_view what, const ExportedJob& job, const std::string& mark);

// The mode of all stages. If they differ, the one that recomputes most, and `cannot` reports it.
Recompute recompute_of(const Plan& plan, ExportedJob& job);

// Reports facts common to all exports: scenario keys that no exporter reads, and the devices. Each phrase becomes one line. Call
// it before the heading is made.
void report_the_rest(const ExportRequest& request, ExportedJob& job);

// Checks that the plan's devices are in the order of the trainer's ranks; otherwise `cannot` reports it.
void report_devices(const Plan& plan, ExportedJob& job);

// Rules of the optimizer and of training that trainers take as numbers; `cannot` lists the groups and patterns left out.
void report_optimizer(const Scenario& scenario, ExportedJob& job);

// Reports what layers of Llama and GPT do not have, for trainers whose models are these.
void report_traits(const TransformerTraits& traits, ExportedJob& job);

// True if rank r of replica d has number d x pipeline + r: the ranks of a replica are consecutive.
bool replicas_in_a_row(const Plan& plan);

// Ranks that share a sample's sequence: the plan's devices divided by its other degrees.
int context_ranks(const Plan& plan);

// True if the scenario states the key: its value is the user's own, not a default of ours.
bool states(const Scenario& scenario, const std::string& path);

// Collects what a job leaves to its owner, because the scenario does not state it: words of the trainer, such as "--lr".
class LeftOut {
 public:
  explicit LeftOut(const Scenario& scenario) : scenario_(scenario) {}
  // True if the scenario states the key; otherwise `word` is left out.
  bool states(const std::string& path, const std::string& word);
  void add(std::string word) { words_.push_back(std::move(word)); }
  // Adds a sentence with the words; `without`: what the trainer does if the owner adds none of them.
  void report(const std::string& without, ExportedJob& job) const;

 private:
  const Scenario& scenario_;
  std::vector<std::string> words_;
};

// The steps of the scenario's `run`, rounded up; nullopt if it states none.
std::optional<std::int64_t> steps_of_run(const ExportRequest& request);

// The machines of a plan's ranks.
struct Machines {
  int nodes = 1, per_node = 1;
};
Machines machines_of(const ExportRequest& request);
// "torchrun --nnodes 4 --nproc-per-node 8", with the cluster's nodes.
std::string launch_text(const ExportRequest& request);

// Settings as YAML, sections nested by the dots of their keys, each key in the order of first mention.
std::string yaml_text(const std::vector<Setting>& settings);
// The same as JSON: a line for each key of the first level.
std::string json_text_of(const std::vector<Setting>& settings);

// Base of the exports of configuration files: what the plan and the scenario are, and the settings that state them.
class ConfigurationExport {
 public:
  explicit ConfigurationExport(const ExportRequest& request)
      : request_(request), scenario_(request.experiment.scenario), plan_(request.plan), left_out_(scenario_) {}

 protected:
  void set(std::string path, std::string value) { settings_.emplace_back(std::move(path), std::move(value)); }
  void set(std::string path, int value) { set(std::move(path), std::to_string(value)); }
  // If the scenario states the key; otherwise `word` is left out.
  void set_stated(const std::string& key, const std::string& path, const std::string& value) {
    if (left_out_.states(key, path)) set(path, value);
  }
  void set_steps(const std::string& path);  // of the scenario's run
  void cannot_if(bool has, std::string phrase) {
    if (has) job_.cannot.push_back(std::move(phrase));
  }
  [[noreturn]] void refuse(const std::string& what, const std::string& help = "") const;
  // The recompute of a trainer that recomputes whole blocks, each by itself; anything else is reported.
  Recompute recompute_of_blocks();

  const ExportRequest& request_;
  const Scenario& scenario_;
  const Plan& plan_;
  LeftOut left_out_;
  ExportedJob job_;
  std::vector<Setting> settings_;
};

// As YAML and JSON write it.
inline const char* flag_text(bool value) { return value ? "true" : "false"; }

// A number with the fewest digits that read back as the same value: 1e-05, 0.001.
std::string number_text(double value);
// The same as PyYAML reads it, for which an exponent without a point makes a text: 1.0e-05.
std::string yaml_number(double value);

}  // namespace panpipe::jobs
