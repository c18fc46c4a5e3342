#include "planner/candidate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "costmodel/plan/stage_activations.hpp"
#include "costmodel/timeline/memory_room.hpp"
#include "costmodel/timeline/metric_table.hpp"

namespace panpipe::planner {
namespace {

// With the names of their units.
std::vector<PlannedStage> stages_of(const Plan& plan, const WorkloadCost& workload) {
  std::vector<PlannedStage> stages;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    PlannedStage& stage = stages.emplace_back();
    stage.data = plan.data;
    stage.tensor = plan.tensor;
    const int blocks = plan.stages[s].recompute_first > 0 ? plan.stages[s].recompute_first : workload.recompute_first;
    const int again = recompute_end(workload, plan.stages[s].first_unit, plan.stages[s].end_unit, blocks);
    for (int u = plan.stages[s].first_unit; u < plan.stages[s].end_unit; ++u) {
      const UnitCost& unit = workload.units[u];
      stage.operators.push_back(unit.name);
      const bool does = recompute_of_unit(u, again, plan.stages[s].recompute) != Recompute::None && unit.recomputes;
      if (does && !unit.block.empty()) stage.recompute.push_back(unit.name);
    }
    const int rank = plan.schedule.stage_to_rank[s];
    for (int d = 0; d < plan.replicas(); ++d)
      for (int t = 0; t < plan.tensor; ++t) stage.devices.push_back(plan.device(rank, d, t));
  }
  return stages;
}

}  // namespace

std::vector<std::pair<std::string, double>> figures_of(const Prediction& prediction) {
  return panpipe::figures_of(prediction.metrics, prediction.timeline.kind, MetricSummary::Candidate);
}

Candidate described(const CostModel& model, std::shared_ptr<const Plan> plan, const TaskGraph& graph) {
  const Scenario& scenario = model.scenario();
  const Prediction prediction = predict(graph, scenario, *plan);
  Candidate candidate;
  candidate.metrics = figures_of(prediction);
  candidate.evidence = prediction.metrics.evidence;
  candidate.run = prediction.metrics.run;
  candidate.stages = stages_of(*plan, model.units(scenario.cluster.devices.front().type));
  candidate.schedule = plan->schedule.name;
  candidate.plan = std::move(plan);
  return candidate;
}

// A list of numbers is a text to YAML.
std::string schedule_setting(const std::string& name, const ScheduleOptions& options) {
  std::string text = "{name: " + name;
  for (const auto& [key, value] : options)
    text += fmt::format(", {}: {}", key, value.find(',') == std::string::npos ? value : "\"" + value + "\"");
  return text + "}";
}

const double* figure_named(const std::vector<std::pair<std::string, double>>& metrics, std::string_view key) {
  for (const auto& [name, value] : metrics)
    if (name == key) return &value;
  return nullptr;
}

Room room_of(const Candidate& candidate) {
  const double* known = figure_named(candidate.metrics, "fits");
  if (known != nullptr && *known == 0) return Room::None;
  const double* share = figure_named(candidate.metrics, "memory_share");
  return share != nullptr && fits_how(*share) == "hardly" ? Room::Hardly : Room::Enough;
}

bool fits_in_memory(const Candidate& candidate) { return room_of(candidate) != Room::None; }

void order_by_room(const Scenario& scenario, std::vector<Candidate>& candidates) {
  const bool given = has_given_costs(scenario);
  const auto place = [&](const Candidate& candidate) {
    const Room room = room_of(candidate);
    return given && room == Room::Hardly ? Room::Enough : room;
  };
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const Candidate& a, const Candidate& b) { return place(a) < place(b); });
}

std::optional<double> gain_without_room(const Answer& answer, const Candidate& candidate) {
  if (answer.candidates.empty() || room_of(candidate) <= room_of(answer.candidates.front())) return std::nullopt;
  const double best = deciding_figure(answer, answer.candidates.front()), own = deciding_figure(answer, candidate);
  if (own <= 0 || own >= best) return std::nullopt;
  return 1 - own / best;
}

void check_finite(const Candidate& candidate) {
  for (const auto* figures : {&candidate.metrics, &candidate.simulated})
    for (const auto& [name, value] : *figures)
      if (!std::isfinite(value)) throw not_finite(fmt::format("figure: {} of {} is {}", name, candidate.summary, value));
}

}  // namespace panpipe::planner
