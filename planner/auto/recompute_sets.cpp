#include "planner/auto/recompute_sets.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "costmodel/scenario/recompute_modes.hpp"
#include "costmodel/scenario/trainer.hpp"
#include "planner/auto/finalists.hpp"
#include "planner/methods.hpp"

namespace panpipe::planner {
namespace {

bool recomputes(const Candidate& candidate) {
  return candidate.plan != nullptr && std::any_of(candidate.plan->stages.begin(), candidate.plan->stages.end(),
                                                  [](const StagePlan& stage) { return stage.recompute != Recompute::None; });
}

// Measured layers have no operators, and the other memory model no saved tensors.
bool searches_sets(const Experiment& experiment) {
  const Scenario& scenario = experiment.scenario;
  return is_open(scenario, "recompute") && scenario.recompute_scope.plain() && experiment.workload.graph &&
         scenario.memory_model == MemoryModelKind::Full && scenario.schedule.options.count("recompute") == 0;
}

}  // namespace

Answer search_recompute(const Experiment& experiment, const SearchOptions& options) {
  Answer answer = search_auto(experiment, options);
  if (!searches_sets(experiment) || answer.candidates.empty() || !recomputes(answer.candidates.front())) return answer;
  std::vector<std::string> tried;
  for (const std::vector<RecomputedKind>& set : trainer_of(experiment.scenario).recompute_sets) {
    if (options.stopped()) break;
    Scenario scenario = experiment.scenario;
    scenario.recompute_scope.operators = set;
    Answer next = search_auto(Experiment(std::move(scenario)), options, answer.candidates.front().metrics.front().second);
    tried.push_back(names_of(set));
    take_over(std::move(next), experiment.scenario, options, answer);
    answer.search.best = std::min(answer.search.best, answer.candidates.front().metrics.front().second);
  }
  if (!tried.empty())
    answer.notes.push_back(fmt::format("recompute of these operators was searched too: {}", fmt::join(tried, "; ")));
  return answer;
}

}  // namespace panpipe::planner
