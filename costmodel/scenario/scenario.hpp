// The resolved experiment as plain structs. It contains no settings of commands.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/input/reader.hpp"
#include "base/precision.hpp"
#include "costmodel/cluster/cluster.hpp"
#include "costmodel/degrees/degrees.hpp"
#include "costmodel/profile/framework.hpp"
#include "costmodel/profile/profile.hpp"
#include "costmodel/run_cost/rl_step.hpp"
#include "costmodel/run_cost/run_cost.hpp"
#include "costmodel/scenario/training.hpp"
#include "costmodel/workload/sample_lengths.hpp"
#include "costmodel/workload/workload.hpp"
#include "schedule/schedule.hpp"
#include "schedule/semantics.hpp"

namespace panpipe {

struct GivenEvidence;
struct Trainer;

enum class Recompute { None, Selective, Full };
// Operators of a block that selective recompute runs again: the inside of attention; for the other kinds, their results.
enum class RecomputedKind { Attention, Norms, Elementwise, Products, SecondProducts };
// Modules of a block that selective recompute runs again, by Megatron-Core's names: attention's core; the normalizations before
// attention and MLP; a dense MLP; a layer of experts, its activation function, its shared experts; MLA's projections of its
// latents.
enum class RecomputedModule { CoreAttention, LayerNorm, Mlp, Moe, MoeActivation, SharedExperts, MlaUpProjection };
// The meaning of the modes in this scenario.
struct RecomputeScope {
  std::vector<RecomputedKind> operators = {RecomputedKind::Attention};  // of `selective`
  std::vector<RecomputedModule> modules;                                // of `selective`, in addition
  int every = 1;            // applies to blocks (counted from 1) whose number is a multiple of this; the others keep everything
  int first = 0;            // number of blocks at the start of each stage it applies to; the others keep everything; 0 = all
  std::vector<int> firsts;  // the same by stage, in the order of the model; 0: none of its blocks; empty: `first` for all stages
  int chunk = 1;            // neighbouring blocks of a stage that keep one input and are recomputed together
  bool attention_only() const { return modules.empty() && operators == std::vector{RecomputedKind::Attention}; }
  bool plain() const { return every == 1 && first == 0 && firsts.empty() && chunk == 1 && attention_only(); }
};
enum class MemoryModelKind { Full, Pfeife };
enum class TiedEmbedding {
  Copy,
  OneRank
};  // copied to the last stage and all-reduced, or the head computed on the embedding's rank

// A group of passes: units woven, so that collectives of one pass run under compute of the other; or one after another as a
// block.
enum class Braid { Split, Atomic };

struct ScheduleRequest {
  std::string name = "1f1b";  // family; empty when csv is set
  std::string csv;            // resolved path; for rows in the scenario, their name
  std::string rows;           // those rows, as CSV; empty for a file
  ScheduleOptions options;
  Braid braid = Braid::Split;
};
// The order of a request with `csv`. InputError as read_schedule_csv throws.
Schedule stated_order(const ScheduleRequest& request);

// The ranks that a pipeline transfer holds, and the time at which it starts (docs/models/braids.md).
struct TransferRules {
  using Semantics = TransferSemantics;  // not Buffered
  enum class BraidInputs { Together, Unit };
  enum class BraidOutputs { End, Unit };
  enum class FullBackwardSends { End, InputGradient };
  enum class BatchAfter { Cell, Pair };  // batched: after every cell, or after a forward and the following backward together
  enum class BatchReceives {
    AsNeeded,
    Late
  };                                   // batched: earlier than for the next cell if ranks would otherwise wait in a cycle
  std::optional<Semantics> semantics;  // not stated: the framework decides
  BraidInputs braid_inputs = BraidInputs::Together;
  BraidOutputs braid_outputs = BraidOutputs::End;
  FullBackwardSends full_backward_sends = FullBackwardSends::End;
  BatchAfter batch_after = BatchAfter::Cell;
  BatchReceives batch_receives = BatchReceives::AsNeeded;
};

// What lies in the host's memory (docs/models/memory-terms.md): the optimizer's states; the compute copy of the weights.
struct HostedState {
  bool optimizer = false, parameters = false;
  // The devices update the states that lie there, which stream through them; else the host updates all.
  bool streams = false, first_moment = true, second_moment = true, master = true;
  bool gradients = false;  // sums over microbatches, to which each backward adds
  // First blocks of the model whose kept activations stream there and back; kAllBlocks: all. And the inputs of every block.
  int blocks = 0;
  bool block_inputs = false;
  static constexpr int kAllBlocks = 1 << 20;
  bool on_host_step() const { return optimizer && !streams; }
  bool streams_activations() const { return blocks > 0 || block_inputs; }
  bool any() const { return optimizer || parameters || gradients || streams_activations(); }
};

// The training data of an executor; predictions ignore it.
struct DataRequest {
  enum class Kind { Synthetic, Tensors, Tokens };
  Kind kind = Kind::Synthetic;
  std::string file;        // resolved path; empty for synthetic data
  int width = 0;           // bits per token; 0 = from the index next to the file, else 16
  bool shuffle = false;    // a new order in each epoch, from the scenario's seed
  std::string validation;  // resolved path of the evaluation data; empty = none
  double held_out = 0;     // share at the end of the file that is used for evaluation, not for training
};

// A piece of evidence as `evidence` names it: a measurement of this machine or trainer (docs/evidence.md).
struct EvidenceRequest {
  std::string file;              // resolved path
  std::vector<std::string> ids;  // of a table of runs: these rows; empty: all
  std::string job;               // resolved path of the scenario that a log is of; empty: as the log states it, or this one
  std::string key;               // "evidence[1]", which gives messages their place
};

struct Scenario {
  std::string file;  // as the user named it
  std::string name;  // file name without folder and suffix
  Cluster cluster;
  WorkloadRequest workload;
  Degrees degrees;  // stated, or by default
  ContextExchange context_exchange = ContextExchange::Ring;
  ExpertLoad expert_load;
  SampleLengths samples;  // packed into the sequences of a batch; with `lengths` into those of its first shape
  MicrobatchLengths lengths;
  Precision precision = Precision::Fp32;
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
  std::optional<bool> overlap_gradients;  // reduced in buckets during the backward; not stated: the framework decides
  std::optional<Bytes> gradient_bucket;   // bucket size; not stated: the framework's
  TransferRules transfers;
  bool collectives_run_on = false;         // a pass may start during the last tensor-parallel collective of the previous one
  std::shared_ptr<const Trainer> trainer;  // the program that trains; null: none is stated
  Framework framework;                     // the training framework's preset
  std::shared_ptr<const Profile> profile;  // measured costs that replace formulas; null = none
  std::optional<double> usable;            // share of a device's memory that a plan may fill; not stated: each device's own
  int seed = 0;
  DataRequest data;
  std::vector<EvidenceRequest> evidence;
  std::shared_ptr<const GivenEvidence> given_evidence;  // what these files hold; null: nothing was read (app/evidence/)
  std::optional<RolloutRequest> rollout;                // of a step of reinforcement learning, which this one trains on
  std::optional<RunRequest> run;                        // the whole run whose cost is requested; predictions of a step ignore it
  std::vector<ResolvedValue> resolved;                  // every value with its origin, for `panpipe check`
  std::shared_ptr<const Node> document;                 // the tree with overrides applied: gives places to later messages
};

// Loads and resolves a scenario; throws InputError with all faults. `overrides` are "KEY=VALUE". The decisions in a plan file
// (batch, degrees, placement) replace those of the scenario; overrides are applied last.
Scenario load_scenario(const std::string& path, const std::vector<std::string>& overrides = {},
                       const std::string& plan_file = "");
Scenario parse_scenario(const std::string& text, const std::string& name, const std::string& directory,
                        const std::vector<std::string>& overrides = {});

// Memory of a device that a plan may fill: its size x the share stated by the scenario, else by the cluster, else by the device.
Bytes memory_limit(const Scenario& scenario, const DeviceType& type);

// A fault found after reading (a schedule that does not exist for these sizes, more stages than layers), with the place of a key
// ("schedule.group"). If the key is absent, the nearest enclosing key is used.
InputError fault_at(const Scenario& scenario, const std::string& path, const std::string& message, const std::string& help = "",
                    std::string_view code = code::kInvalid);

// Adds the place of a key to a fault without one; returns other faults unchanged.
InputError placed(const InputError& fault, const Scenario& scenario, const std::string& path);

// The scenario's workload in the shapes of these degrees; faults point to the scenario's `workload`.
Workload make_workload(const Scenario& scenario, const Degrees& degrees);
inline Workload make_workload(const Scenario& scenario) { return make_workload(scenario, scenario.degrees); }

// Measured costs are Panpipe's executor's, so it runs the step: the choices of execution become its own under any framework. The
// framework still chooses kernels and what the executor takes from it.
void use_profile(Scenario& scenario, std::shared_ptr<const Profile> profile);

// The origin of a scenario's value, "a.yaml:7", "--set" or "default", for messages that name two places.
std::string origin_of(const Scenario& scenario, const std::string& path);

// True if a planner may choose the value of a key ("schedule", "parallel.tensor", "schedule.prefetch"): it is absent or `auto`.
bool is_open(const Scenario& scenario, const std::string& path);

// The scenario as YAML that loads back to the same scenario, even from another folder. A comment at the end of each line states
// the value's origin. The contents of referenced files follow as comments.
std::string resolved_text(const Scenario& scenario);

}  // namespace panpipe
