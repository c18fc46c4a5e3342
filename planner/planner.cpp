// Calls the requested method.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/index_ranges.hpp"
#include "base/option_fault.hpp"
#include "base/text/quantity_text.hpp"
#include "costmodel/prediction/evidence.hpp"
#include "costmodel/prediction/plan_cautions.hpp"
#include "costmodel/scenario/check_together.hpp"
#include "costmodel/scenario/dynamic_context.hpp"
#include "costmodel/scenario/trainer.hpp"
#include "costmodel/timeline/metric_table.hpp"
#include "planner/auto/open_offload.hpp"
#include "planner/auto/vocabulary_plans.hpp"
#include "planner/candidate.hpp"
#include "planner/methods.hpp"
#include "schedule/vocabulary.hpp"

namespace panpipe::planner {

namespace {

constexpr std::array<std::string_view, 3> kMethods = {"auto", "pfeife", "piper"};

}  // namespace

std::string_view name_of(Method method) { return kMethods[at(method)]; }

Method method_named(const std::string& name) {
  const auto found = std::find(kMethods.begin(), kMethods.end(), name);
  if (found == kMethods.end()) throw unknown_choice("method", name, {kMethods.begin(), kMethods.end()});
  return static_cast<Method>(found - kMethods.begin());
}

std::string objective_text(const std::string& objective, double value) {
  return objective.ends_with("_s") ? to_text(Duration(value)) : fmt::format("{:.6g}", value);
}

double deciding_figure(const Answer& answer, const Candidate& candidate) {
  const std::string figure = answer.simulation_decides ? "step_time_s" : answer.objective;
  for (const auto& [name, number] : answer.simulation_decides ? candidate.simulated : candidate.metrics)
    if (name == figure) return number;
  return 0;
}

namespace {

bool tie(const Answer& answer, const Candidate& a, const Candidate& b) {
  const auto [less, more] = std::minmax({deciding_figure(answer, a), deciding_figure(answer, b)});
  return answer.tie_within > 0 && &a != &b && less > 0 && more <= less * (1 + answer.tie_within);
}

}  // namespace

bool is_tie(const Answer& answer, const Candidate& candidate) {
  return !answer.candidates.empty() && tie(answer, candidate, answer.candidates.front());
}

bool ties_with_yours(const Answer& answer, const Candidate& candidate) {
  return answer.yours && tie(answer, candidate, *answer.yours);
}

std::optional<double> gain_over_yours(const Answer& answer, const Candidate& candidate) {
  if (!answer.yours) return std::nullopt;
  const double yours = deciding_figure(answer, *answer.yours), own = deciding_figure(answer, candidate);
  if (yours <= 0 || own <= 0) return std::nullopt;
  return 1 - own / yours;
}

std::vector<int> unused_devices(const Answer& answer, const Candidate& candidate) {
  std::vector<int> used;
  for (const PlannedStage& stage : candidate.stages) used.insert(used.end(), stage.devices.begin(), stage.devices.end());
  return unused_indices(used, answer.devices);
}

namespace {

Answer searched(const Experiment& experiment, const SearchOptions& options) {
  const OpenOffload open = open_offload(experiment.scenario);
  if (open.any() && options.method != Method::Auto)
    throw fault_at(experiment.scenario,
                   open.optimizer    ? "offload.optimizer"
                   : open.parameters ? "offload.parameters"
                                     : "offload.activations",
                   fmt::format("the method {} does not search offload", name_of(options.method)),
                   "state cpu or none, or search with the method auto");
  Features features;
  features.add(Feature::CutVocabulary, cuts_vocabulary(experiment.scenario.schedule.options));
  features.add(Feature::DynamicContext, has_dynamic_context(experiment.scenario));
  check_together(experiment.scenario, features, Where::Searched);
  if (!experiment.scenario.recompute_scope.firsts.empty() && options.method != Method::Auto)
    throw fault_at(experiment.scenario, "recompute",
                   fmt::format("the method {} has other stages than recompute.first lists", name_of(options.method)),
                   "leave it open: recompute: auto");
  switch (options.method) {
    case Method::Pfeife:
      return search_pfeife(experiment, options);
    case Method::Auto:
      return search_offload(experiment, options);
    case Method::Piper:
      return search_piper(experiment, options);
  }
  PANPIPE_CHECK(false, "a method of search");
}

// What the search owes to the trainer: whose plans these are, and what prices them.
void note_trainer(const Scenario& scenario, Answer& answer) {
  const Trainer& trainer = *scenario.trainer;
  const std::string& preset = scenario.framework.name;
  std::string note = fmt::format("for {}: steps cost as framework {}", trainer.full_title(), scenario.framework.title());
  if (preset != trainer.framework) note += fmt::format(", which the scenario names ({} is the trainer's)", trainer.framework);
  answer.notes.push_back(std::move(note));
  if (answer.method != Method::Auto)
    answer.notes.push_back(fmt::format("the method {} does not ask what {} can run", name_of(answer.method), trainer.title));
}

}  // namespace

Scenario with_choices(Scenario scenario, const Candidate& candidate) {
  for (const auto& [key, value] : candidate.settings) {
    if (key == "offload.optimizer") scenario.offload.optimizer = value == "cpu";
    if (key == "offload.parameters") scenario.offload.parameters = value == "cpu";
  }
  if (!candidate.recomputed.empty()) scenario.recompute_scope.operators = candidate.recomputed;
  return scenario;
}

Answer search(const Experiment& experiment, const SearchOptions& options) {
  Answer answer = searched(experiment, options);
  if (vocabulary_is_open(experiment.scenario)) add_vocabulary_plans(experiment, options, answer);
  answer.devices = experiment.scenario.cluster.size();
  answer.trainer = experiment.scenario.trainer;
  if (answer.trainer) note_trainer(experiment.scenario, answer);
  if (!answer.trainer && !answer.candidates.empty() && answer.candidates.front().plan) {
    const Scenario chosen = with_choices(experiment.scenario, answer.candidates.front());
    answer.runs_in = trainers_of(*answer.candidates.front().plan, chosen.offload, chosen.recompute_scope);
  }
  if (!has_given_costs(experiment.scenario)) answer.tie_within = std::expm1(shipped_evidence().tie());
  for (Candidate& candidate : answer.candidates) {
    if (candidate.plan) candidate.cautions = plan_cautions(with_choices(experiment.scenario, candidate), *candidate.plan);
    check_finite(candidate);
  }
  return answer;
}

}  // namespace panpipe::planner
