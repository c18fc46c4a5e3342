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
#include "costmodel/cost/matrix_optimizer.hpp"
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

// Refuses what the method auto alone knows.
void check_method(const Scenario& scenario, Method method) {
  if (method == Method::Auto) return;
  const OpenOffload open = open_offload(scenario);
  const Degrees& degrees = scenario.degrees;
  const bool pfeife = method == Method::Pfeife;
  const char* const places = "state cpu or none, or search with the method auto";
  const struct {
    bool stated;
    const char *key, *fault, *help;
  } obstacles[] = {{open.optimizer, "offload.optimizer", "does not search offload", places},
                   {open.parameters, "offload.parameters", "does not search offload", places},
                   {open.activations, "offload.activations", "does not search offload", places},
                   {!scenario.recompute_scope.firsts.empty(), "recompute", "has other stages than recompute.first lists",
                    "leave it open: recompute: auto"},
                   {pfeife && degrees.zero >= 3, "parallel.zero", "does not know gathered parameters",
                    "plan with zero 0, 1 or 2, or with the method auto"},
                   {degrees.expert > 1, "parallel.expert", "does not know experts over ranks",
                    "plan with expert 1; estimate and simulate know more"},
                   {degrees.context > 1, "parallel.context", "does not know context parallelism",
                    "plan with context 1; estimate and simulate know more"},
                   {scenario.lengths.shapes.size() > 1, "batch.lengths", "does not know microbatches of unequal length",
                    "plan with the method auto; estimate and simulate know them"},
                   {pfeife && steps_matrices(scenario.optimizer.name), "optimizer", "does not know steps of whole matrices",
                    "plan with the method auto, or with adamw"},
                   {pfeife && scenario.collectives_run_on, "trailing_collectives", "counts a pass as one block",
                    "plan with 'trailing_collectives: awaited'"},
                   {pfeife && scenario.transfers.full_backward_sends == TransferRules::FullBackwardSends::InputGradient,
                    "transfers.full_backward_sends", "counts a pass as one block", "plan with 'full_backward_sends: end'"}};
  for (const auto& [stated, key, fault, help] : obstacles)
    if (stated) throw fault_at(scenario, key, fmt::format("the method {} {}", name_of(method), fault), help);
}

Answer searched(const Experiment& experiment, const SearchOptions& options) {
  check_method(experiment.scenario, options.method);
  Features features;
  features.add(Feature::CutVocabulary, cuts_vocabulary(experiment.scenario.schedule.options));
  features.add(Feature::DynamicContext, has_dynamic_context(experiment.scenario));
  check_together(experiment.scenario, features, Where::Searched);
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
