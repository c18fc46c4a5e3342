// Calls the requested method.
#include <fmt/format.h>

#include <cmath>

#include "base/error.hpp"
#include "base/index_ranges.hpp"
#include "base/option_fault.hpp"
#include "base/text/quantity_text.hpp"
#include "costmodel/prediction/evidence.hpp"
#include "costmodel/prediction/trainer_remarks.hpp"
#include "costmodel/scenario/trainer.hpp"
#include "costmodel/timeline/metric_table.hpp"
#include "planner/methods.hpp"

namespace panpipe::planner {

std::string_view name_of(Method method) {
  switch (method) {
    case Method::Auto:
      return "auto";
    case Method::Pfeife:
      return "pfeife";
    case Method::Piper:
      return "piper";
  }
  return "";
}

Method method_named(const std::string& name) {
  std::vector<std::string> names;
  for (const Method method : {Method::Auto, Method::Pfeife, Method::Piper}) {
    if (name_of(method) == name) return method;
    names.emplace_back(name_of(method));
  }
  throw unknown_choice("method", name, names);
}

std::string objective_text(const std::string& objective, double value) {
  return objective.ends_with("_s") ? to_text(Duration(value)) : fmt::format("{:.6g}", value);
}

bool is_tie(const Answer& answer, const Candidate& candidate) {
  const std::string figure = answer.simulation_decides ? "step_time_s" : answer.objective;
  const auto value = [&](const Candidate& of) {
    for (const auto& [name, number] : answer.simulation_decides ? of.simulated : of.metrics)
      if (name == figure) return number;
    return 0.0;
  };
  const double best = value(answer.candidates.front()), other = value(candidate);
  return answer.tie_within > 0 && &candidate != &answer.candidates.front() && best > 0 && other > 0 &&
         other <= best * (1 + answer.tie_within);
}

std::vector<int> unused_devices(const Answer& answer, const Candidate& candidate) {
  std::vector<int> used;
  for (const PlannedStage& stage : candidate.stages) used.insert(used.end(), stage.devices.begin(), stage.devices.end());
  return unused_indices(used, answer.devices);
}

namespace {

Answer searched(const Experiment& experiment, const SearchOptions& options) {
  switch (options.method) {
    case Method::Pfeife:
      return search_pfeife(experiment, options);
    case Method::Auto:
      return search_auto(experiment, options);
    case Method::Piper:
      return search_piper(experiment, options);
  }
  PANPIPE_CHECK(false, "a method of search");
}

// What the search owes to the trainer: whose plans these are, what prices them, and what speaks against starting one.
void note_trainer(const Scenario& scenario, Answer& answer) {
  const Trainer& trainer = *scenario.trainer;
  const std::string& preset = scenario.framework.name;
  std::string note = fmt::format("for {}: steps cost as framework {}", trainer.full_title(), scenario.framework.title());
  if (preset != trainer.framework) note += fmt::format(", which the scenario names ({} is the trainer's)", trainer.framework);
  answer.notes.push_back(std::move(note));
  if (answer.method != Method::Auto)
    answer.notes.push_back(fmt::format("the method {} does not ask what {} can run", name_of(answer.method), trainer.title));
  for (Candidate& candidate : answer.candidates)
    if (candidate.plan) candidate.cautions = trainer_remarks(scenario, *candidate.plan);
}

}  // namespace

Answer search(const Experiment& experiment, const SearchOptions& options) {
  Answer answer = searched(experiment, options);
  answer.devices = experiment.scenario.cluster.size();
  answer.trainer = experiment.scenario.trainer;
  if (answer.trainer) note_trainer(experiment.scenario, answer);
  if (costs_alike(experiment.scenario) != "given") answer.tie_within = std::expm1(shipped_evidence().tie());
  for (const Candidate& candidate : answer.candidates)
    for (const auto* figures : {&candidate.metrics, &candidate.simulated})
      for (const auto& [name, value] : *figures)
        if (!std::isfinite(value)) throw not_finite(fmt::format("figure: {} of {} is {}", name, candidate.summary, value));
  return answer;
}

}  // namespace panpipe::planner
