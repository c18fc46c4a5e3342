#include "app/sweep.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/option_fault.hpp"
#include "base/version.hpp"
#include "costmodel/prediction/estimated_step.hpp"
#include "costmodel/prediction/evidence.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "planner/planner.hpp"

namespace panpipe::app {

study::SweepGrid grid_of(SweepRequest request) {
  if (request.engine != "estimate" && request.engine != "simulate")
    throw unknown_choice("engine", request.engine, {"estimate", "simulate"});
  if (!request.method.empty()) planner::method_named(request.method);
  study::SweepGrid grid;
  grid.version = kVersion;
  grid.scenario = std::move(request.scenario);
  grid.engine = std::move(request.engine);
  grid.method = std::move(request.method);
  grid.sets = std::move(request.overrides);
  grid.axes = std::move(request.axes);
  return grid;
}

std::string evidence_heading(const Scenario& scenario, const std::string& cell) {
  if (!scenario.given_evidence) return "";
  std::string text = fmt::format("evidence, as it counts for {}:\n", cell);
  const Experiment experiment(scenario);
  const Plan plan = experiment.plan("");
  const TaskGraph graph = lower(experiment.scenario, plan, experiment.model);
  const EstimatedStep step = estimated_step(graph, experiment.scenario, plan);
  return text + evidence_text(step.metrics.step_time_p50_s, step.metrics.evidence);
}

}  // namespace panpipe::app
