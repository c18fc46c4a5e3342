#include "study/cell_answer/cell_answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/stop.hpp"
#include "base/text/quantity_text.hpp"
#include "costmodel/prediction/evidence.hpp"
#include "costmodel/prediction/prediction.hpp"
#include "costmodel/timeline/memory_room.hpp"
#include "costmodel/timeline/metric_table.hpp"
#include "planner/planner.hpp"
#include "sim/simulate.hpp"

namespace panpipe::study {
namespace {

// "device 0 needs 25.61 GiB of 24.00 GiB": the one that lacks most.
std::string too_much(const Timeline& timeline) {
  const DeviceTimeline* worst = nullptr;
  for (const DeviceTimeline& device : timeline.devices)
    if (!fits(device) && (!worst || device.peak - device.limit > worst->peak - worst->limit)) worst = &device;
  return worst ? fmt::format("device {} needs {} of {}", worst->device, to_text(worst->peak), to_text(worst->limit)) : "";
}

Timeline simulated_timeline(const TaskGraph& graph, const Cluster& cluster) { return sim::simulate(graph, cluster); }

Engine engine_of(const SweepGrid& grid) { return grid.engine == "simulate" ? simulated_timeline : idle_links(); }

CellAnswer answer_from(const Prediction& prediction) {
  const Timeline& timeline = prediction.timeline;
  const Metrics& figures = prediction.metrics;
  CellAnswer answer;
  answer.fits = figures.fits;
  if (!figures.fits) {
    answer.reason = too_much(timeline);
  } else if (const DeviceTimeline* fullest = fullest_device(timeline.devices); fullest && fullest->limit > Bytes(0)) {
    if (!doubtful_room(fullest->peak, fullest->limit).empty())
      answer.reason =
          fmt::format("tight: device {} needs {} of {}", fullest->device, to_text(fullest->peak), to_text(fullest->limit));
  }
  // Whether it fits is the status of a cell.
  answer.metrics = figures_of(figures, timeline.kind, MetricSummary::Cell);
  answer.evidence = evidence_lines(figures.step_time_p50_s, figures.evidence);
  return answer;
}

// The best plan that engines can run, under the keys that it decides; of a plan that they cannot run, the planner's figures.
CellAnswer plan_and_predict(const SweepGrid& grid, Scenario scenario) {
  planner::SearchOptions options;
  options.method = planner::method_named(grid.method);
  options.threads = 1;  // the cells run in parallel already
  options.candidates = 1;
  options.stop = stop_flag();
  if (grid.engine == "simulate") options.simulate = sim::simulate_for_search;
  const Experiment asked(std::move(scenario));
  const planner::Answer found = search(asked, options);
  throw_if_stopped();
  if (found.candidates.empty()) throw NoAnswer(found.reason.empty() ? "no feasible plan" : found.reason);
  const planner::Candidate& best = found.candidates.front();
  CellAnswer answer;
  if (best.plan)
    answer = answer_from(predict(asked.scenario, *best.plan, engine_of(grid)));
  else
    answer.metrics = best.metrics;
  answer.plan = best.summary;
  return answer;
}

}  // namespace

void check_scenario_of_cell(Scenario scenario) {
  const auto& types = scenario.cluster.types;
  const bool timed = std::any_of(types.begin(), types.end(), [](const DeviceType& type) { return type.has_rates(); });
  if (timed || scenario.profile || !scenario.workload.layers_file.empty()) return;
  const Experiment experiment(std::move(scenario));
  experiment.model.workload(experiment.scenario.cluster.devices.front().type);
}

CellAnswer answer_of_scenario(const SweepGrid& grid, Scenario scenario) {
  if (!grid.method.empty()) return plan_and_predict(grid, std::move(scenario));
  const Experiment experiment(std::move(scenario));
  return answer_from(predict(experiment, experiment.plan(""), engine_of(grid)));
}

void load_cell(const std::string& file, const std::vector<std::string>& overrides) {
  check_scenario_of_cell(load_scenario(file, overrides));
}

CellAnswer answer_of_cell(const SweepGrid& grid, const std::vector<std::string>& overrides) {
  return answer_of_scenario(grid, load_scenario(grid.scenario, overrides));
}

}  // namespace panpipe::study
