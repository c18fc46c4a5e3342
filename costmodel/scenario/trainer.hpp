// The program that trains (`trainer:`): what its steps cost, what can run there, and what to beware of. Each trainer has a file
// under scenarios/trainers/, with a source for every statement. What a trainer reads and writes is in jobs/.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/input/reader.hpp"
#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

class JsonWriter;

// Something to know before a plan is started, though the trainer takes it.
struct TrainerCaution {
  std::map<std::string, int> at_least;  // the plans that it is about: "zero" -> 2, "pipeline" -> 2; all of them hold
  std::string says;                     // a sentence without its end
  std::string source;
};

// A choice of state for the host's memory, with the ZeRO stages that it goes with.
struct TrainerOffload {
  HostedState state;
  std::vector<int> zero;  // where there are several replicas
  bool allows(const HostedState& hosted) const {
    return state.optimizer == hosted.optimizer && state.parameters == hosted.parameters && state.streams == hosted.streams &&
           state.gradients == hosted.gradients;
  }
};

struct Trainer {
  std::string name;     // "megatron-core": the word of `trainer:`, `--for`, import, export and capture
  std::string title;    // "Megatron-LM"
  std::string release;  // as stated, "0.12"; empty: the newest that the file knows
  std::string newest;   // the newest release that the file was written for
  std::vector<std::string> aliases;
  std::string framework;  // the preset that prices its steps, for this release
  int software = 0;       // year of this release; 0: the newest software
  // What can run there, in this release.
  std::optional<std::vector<std::string>> schedules;  // families of pipelines; empty: it has no pipeline; nullopt: all
  bool tensor = false, context = false, expert = false;
  std::vector<int> zero, zero_with_pipeline;  // ZeRO stages, and those of them that go together with a pipeline
  std::vector<int> zero_in_groups;            // those that can divide over groups smaller than all replicas
  std::vector<Recompute> recompute;
  std::vector<std::vector<RecomputedKind>> recompute_sets;  // operators that it can recompute, besides those of `selective`
  bool cuts_layers = false;                                 // stages may begin and end inside a layer
  bool orders_from_files = false;                           // runs an order without a name, from a file
  bool replica_ranks_adjacent = false;                      // can number the ranks of a replica consecutively
  bool experts_need_sequence = false;  // trains experts with tensor parallelism only under sequence parallelism
  bool recomputes_by_stage = false;    // each stage can recompute a number of its own of its first blocks
  // State that it can keep in the host's memory, and activations that it can move there.
  std::vector<TrainerOffload> offloads;
  bool offloads_activations = false, offloads_blocks = false;
  bool mixed_needs_shards = false;  // with a pipeline or tensor parallelism it mixes precisions only where it divides data
  std::vector<TrainerCaution> cautions;

  // "Megatron-LM", "Megatron-LM 0.12"
  std::string full_title() const { return release.empty() ? title : title + " " + release; }
  bool runs_schedule(std::string_view family) const;
};

// The scenario's trainer; if it states none, one that can run everything.
const Trainer& trainer_of(const Scenario& scenario);

// Names of all trainers, without aliases.
std::vector<std::string> trainer_names();
// The name that a name or an alias stands for. Throws InputError with a suggestion for an unknown word.
std::string trainer_name_of(const std::string& word);
// By name or alias. Throws InputError as above, and for a release that is no number such as 0.12.
Trainer load_trainer(const std::string& word, const std::string& release = "");
// The file of a trainer; for what importers and exporters keep there.
std::shared_ptr<const Node> trainer_file(const std::string& name);

Key trainer_key();
// `trainer: NAME` or `{name, release}`; null if the scenario states none.
std::shared_ptr<const Trainer> read_trainer(MapReader& scenario);

// The choices of a plan on which it depends whether a trainer can run it.
struct TrainedPlan {
  const Degrees& degrees;
  std::string_view schedule;  // family; empty: an order from a file
  Recompute recompute;        // of the stage that recomputes most
  Precision precision = Precision::Fp32;
  bool recompute_by_stage = false;  // stages state numbers of blocks
  HostedState offload{};
  bool offloads_activations = false;
  RecomputeScope scope{};  // the meaning of `recompute`
};

// The field `trainer` of a document, in a scenario's form: the name, or {name, release}. Nothing for null.
void write_trainer(JsonWriter& out, const Trainer* trainer);

// What the trainer cannot run, each with the scenario's key: {"schedule", "the schedule zb-auto", "it has 1f1b"}.
struct TrainerObstacle {
  std::string key, what, has;
};
std::vector<TrainerObstacle> obstacles(const Trainer& trainer, const TrainedPlan& plan);

// Whether these degrees are trained in the precision that is stated, not in fp32.
bool runs_in_precision(const Trainer& trainer, const Degrees& degrees, Precision precision);

// What to know before the plan is started there, a sentence each.
std::vector<std::string> cautions(const Trainer& trainer, const Degrees& degrees);

// A sentence where a release is stated that is newer than what the file knows; else empty.
std::string unknown_release(const Trainer& trainer);

}  // namespace panpipe
