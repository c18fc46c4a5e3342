// The resolved experiment, as plain structs: what is modelled, and nothing about how a command behaves.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/input/reader.hpp"
#include "base/precision.hpp"
#include "costmodel/cluster/cluster.hpp"
#include "costmodel/profile/framework.hpp"
#include "costmodel/profile/profile.hpp"
#include "costmodel/run_cost/run_cost.hpp"
#include "costmodel/scenario/degrees.hpp"
#include "costmodel/scenario/training.hpp"
#include "costmodel/workload/workload.hpp"
#include "schedule/schedule.hpp"
#include "schedule/semantics.hpp"

namespace panpipe {

enum class Recompute { None, Selective, Full };
// Operators of a block that selective recompute makes again: the inside of attention, the results of the others.
enum class RecomputedKind { Attention, Norms, Elementwise, Products, SecondProducts };
// Modules of a block that selective recompute makes again, by Megatron-Core's names: attention's core; the normalizations in
// front of attention and MLP; a dense MLP; a layer of experts, its activation function, its shared experts; what MLA makes of its
// latents.
enum class RecomputedModule { CoreAttention, LayerNorm, Mlp, Moe, MoeActivation, SharedExperts, MlaUpProjection };
// What the modes mean in this scenario.
struct RecomputeScope {
  std::vector<RecomputedKind> operators = {RecomputedKind::Attention};  // of `selective`
  std::vector<RecomputedModule> modules;                                // of `selective`, besides
  int every = 1;  // of the model's blocks, counted from 1, those that this divides; the others keep everything
  int first = 0;  // of each stage's blocks so many from its first; the others keep everything; 0 = all
  int chunk = 1;  // neighbouring blocks of a stage that keep one input and are made again together
  bool attention_only() const { return modules.empty() && operators == std::vector{RecomputedKind::Attention}; }
  bool plain() const { return every == 1 && first == 0 && chunk == 1 && attention_only(); }
};
enum class MemoryModelKind { Full, Pfeife };
enum class TiedEmbedding {
  Copy,
  OneRank
};  // copied to the last stage and all-reduced, or head computed where the embedding lives

struct Parallel {
  int pipeline = 1, tensor = 1, data = 1;
  int virtual_stages = 1;  // stages per rank
  int zero = 0;            // 0..3, over the ranks of a shard group
  bool sequence_parallel = false;
  int shard = 0;    // replicas of a shard group; 0: all
  int context = 1;  // ranks that share a sample's sequence
  ContextExchange exchange = ContextExchange::Ring;
  int expert = 1;         // ranks that share out the experts
  int expert_tensor = 0;  // ranks that divide an expert's width: 1, or 0 = the tensor group
};

// A group of passes: their units woven, so that collectives of one run under compute of the other; or one block.
enum class Braid { Split, Atomic };

struct ScheduleRequest {
  std::string name = "1f1b";  // family; empty when csv is set
  std::string csv;            // path as found; of rows that stand in the scenario their name
  std::string rows;           // those rows, as CSV; empty for a file
  ScheduleOptions options;
  Braid braid = Braid::Split;
};
// The order of a request with `csv`. InputError as read_schedule_csv throws.
Schedule stated_order(const ScheduleRequest& request);

// What a pipeline transfer holds up, and when it starts (docs/models/braids.md).
struct TransferRules {
  using Semantics = TransferSemantics;  // not Buffered
  enum class BraidInputs { Together, Unit };
  enum class BraidOutputs { End, Unit };
  enum class FullBackwardSends { End, InputGradient };
  enum class BatchAfter { Cell, Pair };         // batched: behind every cell, or a forward and the backward behind it together
  enum class BatchReceives { AsNeeded, Late };  // batched: earlier than for the next cell where ranks would wait in a circle
  std::optional<Semantics> semantics;           // not stated: as the framework does
  BraidInputs braid_inputs = BraidInputs::Together;
  BraidOutputs braid_outputs = BraidOutputs::End;
  FullBackwardSends full_backward_sends = FullBackwardSends::End;
  BatchAfter batch_after = BatchAfter::Cell;
  BatchReceives batch_receives = BatchReceives::AsNeeded;
};

// What lies in the host's memory (docs/models/memory-terms.md): the optimizer's states, updated there; the weights as computed
// with.
struct HostedState {
  bool optimizer = false, parameters = false;
};

// What an executor trains on; predictions do not look at it.
struct DataRequest {
  enum class Kind { Synthetic, Tensors, Tokens };
  Kind kind = Kind::Synthetic;
  std::string file;        // path as found; empty for synthetic data
  int width = 0;           // bits of a token; 0 = as an index beside the file says, else 16
  bool shuffle = false;    // each pass over the data in an order of its own, by the scenario's seed
  std::string validation;  // path as found of the file that evaluations take; empty = none
  double held_out = 0;     // share of the file, at its end, that evaluations take and training does not
};

struct Scenario {
  std::string file;  // as the user named it
  std::string name;  // file name without folder and suffix
  Cluster cluster;
  WorkloadRequest workload;
  int micro = 1;         // samples per microbatch
  int microbatches = 1;  // per step of one replica
  ExpertLoad expert_load;
  Precision precision = Precision::Fp32;
  Parallel parallel;
  ScheduleRequest schedule;
  std::vector<std::string> partition;  // units (names or indices) that start a stage after the first; empty = auto
  std::optional<std::vector<int>>
      placement;  // device of every (pipeline, data, context, tensor) position, tensor fastest; default 0,1,2...
  Recompute recompute = Recompute::None;
  RecomputeScope recompute_scope;
  OptimizerRequest optimizer;
  HostedState offload;
  TrainingRequest training;
  MemoryModelKind memory_model = MemoryModelKind::Full;
  TiedEmbedding tied_embedding = TiedEmbedding::Copy;
  std::optional<bool> overlap_gradients;  // reduced beside the backward, in buckets; not stated: as the framework does
  std::optional<Bytes> gradient_bucket;   // of this size; not stated: the framework's
  TransferRules transfers;
  bool collectives_run_on = false;         // a pass may start beside the last tensor-parallel collective of the one before
  Framework framework;                     // preset of what the training framework does
  std::shared_ptr<const Profile> profile;  // measured costs that go before formulas; null = none
  std::optional<double> usable;            // share of a device's memory that a plan may fill; not stated: each device's own
  int seed = 0;
  DataRequest data;
  std::optional<RunRequest> run;         // what a whole run is asked to take; predictions of a step ignore it
  std::vector<ResolvedValue> resolved;   // every value with its origin, for `panpipe check`
  std::shared_ptr<const Node> document;  // what was read, overrides applied: places for later messages
};

// Loads and resolves; throws InputError with everything that is wrong. `overrides` are "KEY=VALUE". What a plan file decides of
// the scenario (batch, degrees, placement) takes the place of what the scenario says of it; overrides come after.
Scenario load_scenario(const std::string& path, const std::vector<std::string>& overrides = {},
                       const std::string& plan_file = "");
Scenario parse_scenario(const std::string& text, const std::string& name, const std::string& directory,
                        const std::vector<std::string>& overrides = {});

// What a plan may fill of a device: its memory x the share that the scenario states, or the cluster, or else the device itself.
Bytes memory_limit(const Scenario& scenario, const DeviceType& type);

// A fault that shows only later (a schedule that does not exist for these sizes, more stages than layers), at the place of
// a key ("schedule.group"; the nearest enclosing key that was written when it is absent).
InputError fault_at(const Scenario& scenario, const std::string& path, const std::string& message, const std::string& help = "");

// A fault that has no place yet, at the place of a key; one that has a place is returned as it is.
InputError placed(const InputError& fault, const Scenario& scenario, const std::string& path);

// What the scenario states or was given by default.
Degrees degrees_of(const Scenario& scenario);

// The workload of the scenario in the shapes of these degrees; faults stand at the scenario's `workload`.
Workload make_workload(const Scenario& scenario, const Degrees& degrees);
inline Workload make_workload(const Scenario& scenario) { return make_workload(scenario, degrees_of(scenario)); }

// "a.yaml:7", "--set", or "default": where a value of the scenario comes from, for messages that name two places.
std::string origin_of(const Scenario& scenario, const std::string& path);

// Whether a planner may choose the value of a key ("schedule", "parallel.tensor", "schedule.prefetch"): it is absent or `auto`.
bool is_open(const Scenario& scenario, const std::string& path);

// The scenario as YAML that loads again to the same scenario, also from another folder; the comment at the end of a line says
// where the value comes from. What stands in files it refers to follows as comments.
std::string resolved_text(const Scenario& scenario);

}  // namespace panpipe
