#include "schedule/goes_together.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/rolling.hpp"
#include "schedule/walk.hpp"

namespace panpipe {

std::string_view name_of(Feature feature) {
  constexpr std::string_view kNames[] = {"",
                                         "a vocabulary that is cut over the stages",
                                         "slices of sequences",
                                         "several forward paths",
                                         "stages that run forwards alone",
                                         "steps without a flush",
                                         "two versions of the weights",
                                         "post_validation",
                                         "the schedule's options recompute and offload",
                                         "batch.lengths",
                                         "microbatches of unequal length",
                                         "a dynamic context",
                                         "a framework that joins the outputs of a step",
                                         "images in a sample",
                                         "tensor parallelism",
                                         "context parallelism",
                                         "ZeRO 2 and 3",
                                         "experts over ranks",
                                         "weights that come for a turn"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(Feature::kFeatures));
  return kNames[static_cast<std::size_t>(feature)];
}

const std::vector<Conflict>& conflicts() {
  using enum Feature;
  using enum Where;
  constexpr std::string_view kSchedule = "schedule", kZero = "parallel.zero", kLengths = "batch.lengths",
                             kParameters = "offload.parameters", kContext = "parallel.context";
  constexpr std::string_view kLeaveCut = "leave the option vocabulary out of the schedule";
  constexpr std::string_view kZeroOne = "use parallel.zero 0 or 1", kRunZeroOne = "run with parallel.zero 0 or 1";
  constexpr std::string_view kRunWhole = "run with parallel.context 1; estimate, simulate and plan know more";
  static const std::vector<Conflict> rows = {
      {CutVocabulary, Tensor, Predicted, kSchedule, "tensor-parallel ranks cut it already", kLeaveCut},
      {CutVocabulary, Context, Predicted, kSchedule, "context-parallel ranks hold parts of the sequence", kLeaveCut},
      {CutVocabulary, Slices, Predicted, kSchedule, "its passes are of whole sequences", kLeaveCut},
      {CutVocabulary, SeveralPaths, Predicted, kSchedule, "its passes serve one path", kLeaveCut},
      {CutVocabulary, NoFlush, Predicted, kSchedule, "its passes end with a flush",
       "leave out post_validation, or OPT in the order"},
      {CutVocabulary, MemoryOptions, Predicted, kSchedule, "no place for their actions is known",
       "state recompute of the scenario"},
      {CutVocabulary, UnequalLengths, Predicted, kLengths, "its passes are of one length", kLeaveCut},
      {CutVocabulary, DividedGradients, Predicted, kZero, "its gradients and parameters are not divided over replicas as well",
       kZeroOne},
      {CutVocabulary, WeightTurns, Predicted, kParameters, "it stays on the devices", kLeaveCut},
      {CutVocabulary, None, Searched, kSchedule, "a stated cut is predicted and run",
       "state vocabulary: auto, or ask estimate or simulate"},
      {CutVocabulary, ListedLengths, Executed, kLengths, "its passes are of one length", kLeaveCut},
      {NoFlush, DividedGradients, Predicted, kZero, "replicas hold whole gradients while steps follow each other", kZeroOne},
      {NoFlush, WeightTurns, Predicted, kParameters, "they are updated when all gradients are there, with a flush",
       "leave offload.parameters out, or take a schedule with a flush"},
      {NoFlush, Context, Executed, kContext, "its ranks are updated at different times", "run with parallel.context 1"},
      {TwoVersions, PostValidation, Predicted, kSchedule, "it is for schedules that flush", "leave out post_validation"},
      {ForwardsApart, MemoryOptions, Predicted, kSchedule, "they are for stages that run forwards and backwards",
       "leave out these options"},
      {ForwardsApart, DividedGradients, Executed, kZero, "parameters of stages without a backward are not divided", kRunZeroOne},
      {ExpertsApart, DividedGradients, Executed, kZero,
       "gradients and parameters are divided over replicas that hold the same experts",
       "run with parallel.zero 0 or 1, or with parallel.expert 1"},
      {UnequalLengths, Slices, Predicted, kLengths, "slices are of one size", "choose a schedule without sequence_splits"},
      {UnequalLengths, JoinedOutputs, Predicted, kLengths, "it hands tensors of one shape from rank to rank",
       "choose another framework, or equal lengths"},
      {ListedLengths, Context, Executed, kLengths, "sequences of one length are shared out over the ranks", kRunWhole},
      {DynamicContext, ExpertsApart, Predicted, kLengths, "experts lie on fixed groups of ranks", "use parallel.expert 1"},
      {DynamicContext, None, Searched, kLengths, "samples are shared out for the degrees that are stated",
       "ask estimate or simulate for each choice of degrees"},
      {ListedLengths, Images, Predicted, kLengths, "how many images a shorter sample has is not stated",
       "leave batch.lengths out, or the images"},
      {Slices, Context, Predicted, kSchedule, "both cut sequences", "use parallel.context 1, or sequence_splits 1"},
  };
  return rows;
}

const Conflict* conflict_of(const Features& features, Where asked) {
  const std::vector<Conflict>& rows = conflicts();
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Conflict& row) {
    return (row.where == Where::Predicted || row.where == asked) && features.has(row.one) && features.has(row.other);
  });
  return found == rows.end() ? nullptr : &*found;
}

std::string text_of(const Conflict& conflict) {
  const std::string both = conflict.other == Feature::None
                               ? std::string(name_of(conflict.one))
                               : fmt::format("{} and {}", name_of(conflict.one), name_of(conflict.other));
  switch (conflict.where) {
    case Where::Searched:
      return fmt::format("plan does not search {}: {}", both, conflict.why);
    case Where::Executed:
      return fmt::format("the executor does not have {}{}: {}", both, conflict.other == Feature::None ? "" : " together",
                         conflict.why);
    default:
      return fmt::format("{} do not go together: {}", both, conflict.why);
  }
}

std::string_view code_of(const Conflict& conflict) { return conflict.other == Feature::None ? code::kInvalid : code::kConflict; }

InputError refusal_of(const Conflict& conflict) {
  return InputError(text_of(conflict), std::string(conflict.help), code_of(conflict));
}

Features features_of(const Schedule& schedule) {
  Features features;
  features.add(Feature::CutVocabulary, schedule.vocabulary_barriers > 0);
  features.add(Feature::Slices, schedule.splits > 1);
  features.add(Feature::SeveralPaths, schedule.chains.size() > 1);
  features.add(Feature::ForwardsApart, !ways_of_stages(schedule).empty());
  const Rolling rolling = rolling_of(schedule);
  features.add(Feature::NoFlush, rolling != Rolling::None);
  features.add(Feature::TwoVersions, rolling == Rolling::Stale);
  features.add(Feature::PostValidation, rolling == Rolling::Validated);
  return features;
}

}  // namespace panpipe
