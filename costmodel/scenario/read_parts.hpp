// Reads the parts of a scenario, one function per key that is more than a single value. Faults are logged to the reader's log.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/input/reader.hpp"
#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

// The declared keys of each part.
Key batch_key();
Key parallel_key();
Key experts_key();
Key schedule_key();
Key recompute_key();
Key optimizer_key();
Key offload_key();
Key training_key();
Key transfers_key();
Key partition_key();
Key placement_key();
Key data_key();
Key run_key();
Key rollout_key();
Key packed_key();   // of `batch:`
Key lengths_key();  // the same
Key evidence_key();

// "a.yaml:7" of the last value recorded for a path; the enclosing key's when the value is a default.
std::string place_of(MapReader& scenario, const std::string& path);
std::string device_place(MapReader& scenario);

bool is_auto(const Node* node);

// An optional map of the scenario. If absent, an empty map is read, so that its defaults are read and recorded in the same way.
class Section {
 public:
  Section(MapReader& scenario, const std::string& key) : written_(scenario.find(key)) {
    absent_.kind = NodeKind::Map;
    absent_.path = key;
    absent_.source = scenario.node().source;
  }
  const Node& node() const { return written_ != nullptr ? *written_ : absent_; }

 private:
  const Node* written_;
  Node absent_;
};

// True if the value is `auto`: a planner chooses it, and other verbs use the default, which is recorded as `fallback`.
bool read_auto(MapReader& reader, const std::string& key, const std::string& fallback);

// Logs a fault for each key that other trainers have, with its name here behind the prefix ("parallel."). Before finish().
using NamePair = std::pair<std::string_view, std::string_view>;
void suggest_names(MapReader& reader, std::span<const NamePair> names, const std::string& prefix = "");
std::vector<NamePair> other_degree_names();

// `batch:`. Returns the samples of a step over all replicas where they are stated: `microbatches` then follow from the degrees.
std::optional<int> read_batch(MapReader& reader, Scenario& scenario);
void divide_batch(MapReader& reader, int global, Scenario& scenario);
// `batch.lengths`; needs the workload, the degrees and the number of microbatches.
void read_lengths(MapReader& reader, Scenario& scenario);
std::vector<NamePair> other_batch_names();

// `framework:`; needs the workload and the trainer.
Framework read_framework(MapReader& reader, const WorkloadRequest& workload, const Trainer* trainer, bool given_cluster);

// `parallel:`. Absent keys keep their defaults; pipeline is 0 until the cluster is known.
void read_parallel(MapReader& reader, Scenario& scenario);

// `experts:`, the distribution of tokens over experts.
ExpertLoad read_expert_load(MapReader& scenario, const Degrees& degrees);

// Fills in the pipeline degree and checks the degrees against the number of devices.
void fit_to_devices(MapReader& scenario, const Cluster& cluster, Degrees& degrees);

// The rows of an order that stands in a scenario or a plan, a line each.
std::string read_order_rows(const Node& list, ReadLog& log);
// `schedule:`, a name or {name: ..., options} or {csv: file} or {name: ..., csv: rows}; reconciles stages_per_rank with
// parallel.virtual_stages.
ScheduleRequest read_schedule(MapReader& scenario, Degrees& degrees);

// `recompute:`, a mode or {every: N, operators: [...], modules: [...]}; needs the workload.
void read_recompute(MapReader& reader, Scenario& scenario);

// `optimizer:`, a name or {name: ..., learning_rate ...}.
OptimizerRequest read_optimizer(MapReader& scenario, const std::string& fallback, Precision precision);
bool of_matrices(const OptimizerRequest& optimizer);  // muon, soap, shampoo

// `offload:`, {optimizer: cpu, parameters: cpu, activations: full}; needs the optimizer, the degrees and the schedule.
void read_offload(MapReader& reader, Scenario& scenario);

// `training:`, the executor's settings around the optimizer step.
TrainingRequest read_training(MapReader& scenario);

// `transfers:`; keys that are not stated follow the framework.
TransferRules read_transfers(MapReader& scenario, bool framework_blocks, const std::string& framework);

// `partition:`, auto or the list of units with which stages start.
std::vector<std::string> read_partition(MapReader& scenario);

// `placement:`, the device of each position.
std::optional<std::vector<int>> read_placement(MapReader& scenario, const Cluster& cluster, const Degrees& degrees);

// `data:`.
DataRequest read_data(MapReader& scenario);

// `evidence:`, the files that hold measurements. They are not read here.
std::vector<EvidenceRequest> read_evidence(MapReader& scenario);

// `rollout:`; and `batch.packed`.
std::optional<RolloutRequest> read_rollout(MapReader& scenario);
SampleLengths read_packed(MapReader& batch);
// {lengths, shares}; `counted`: their map also has the number of samples.
SampleLengths read_shares(const Node& node, ReadLog& log, bool counted = false);

// `run:`; needs the cluster, for prices and power of its devices.
std::optional<RunRequest> read_run(MapReader& scenario, const std::optional<Cluster>& cluster);

}  // namespace panpipe
