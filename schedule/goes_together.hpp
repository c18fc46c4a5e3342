// Which features of a plan go together: the one table, which legality, plans, searches and the executor ask. It lists what is
// refused. To refuse one more combination add a row; who makes one work deletes its row. docs/models/combinations.md lists the
// table, which a test compares.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "schedule/schedule.hpp"

namespace panpipe {

enum class Feature : std::uint8_t {
  None,              // in a row: the other one alone is refused
  CutVocabulary,     // schedule: {vocabulary: stages}
  Slices,            // sequence_splits above 1
  SeveralPaths,      // chains of stages with copies of the weights
  ForwardsApart,     // stages that run forwards alone (ways_of_stages)
  NoFlush,           // steps in a row, by either of the next two
  TwoVersions,       // Rolling::Stale
  PostValidation,    // Rolling::Validated
  MemoryOptions,     // the schedule's options recompute and offload, which place actions
  ListedLengths,     // batch.lengths
  UnequalLengths,    // the same, of more than one length
  DynamicContext,    // batch.lengths: {context: dynamic}
  JoinedOutputs,     // a framework that joins the outputs of a step (torch.distributed.pipelining)
  Images,            // inputs of images in front of the words
  Tensor,            // parallel.tensor above 1
  Context,           // parallel.context above 1
  DividedGradients,  // ZeRO 2 and 3 in effect
  ExpertsApart,      // experts that replicas divide
  WeightTurns,       // offload.parameters without ZeRO 3: weights come for the turn of a stage
  kFeatures
};
std::string_view name_of(Feature feature);

class Features {
 public:
  void add(Feature feature, bool there = true) { bits_ |= there ? bit(feature) : 0U; }
  bool has(Feature feature) const { return feature == Feature::None || (bits_ & bit(feature)) != 0; }

 private:
  static std::uint32_t bit(Feature feature) { return 1U << static_cast<unsigned>(feature); }
  std::uint32_t bits_ = 0;
};

// What refuses it: Predicted: all, since no engine has costs for it; Searched: `panpipe plan` too; Executed: `panpipe run` too.
enum class Where : std::uint8_t { Predicted, Searched, Executed };

struct Conflict {
  Feature one, other;
  Where where;
  std::string_view key;   // of the scenario: the place of the fault
  std::string_view why;   // follows a colon
  std::string_view help;  // what to write instead
};
const std::vector<Conflict>& conflicts();

// The first row of which all features are there, and that `asked` refuses; nullptr: none.
const Conflict* conflict_of(const Features& features, Where asked);
// "a and b do not go together: why".
std::string text_of(const Conflict& conflict);
std::string_view code_of(const Conflict& conflict);
InputError refusal_of(const Conflict& conflict);  // without a place

// Those that an order has. Its chains must be sound.
Features features_of(const Schedule& schedule);

}  // namespace panpipe
