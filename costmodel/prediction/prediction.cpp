#include "costmodel/prediction/prediction.hpp"

#include "costmodel/estimate/estimate.hpp"
#include "costmodel/lowering/allocator_replay.hpp"
#include "costmodel/plan/model_costs.hpp"
#include "costmodel/prediction/estimated_step.hpp"
#include "costmodel/prediction/run_of_step.hpp"
#include "costmodel/timeline/device_sums.hpp"
#include "costmodel/timeline/memory_curve.hpp"
#include "costmodel/timeline/memory_room.hpp"
#include "costmodel/timeline/step_metrics.hpp"
#include "costmodel/timeline/step_time.hpp"
#include "schedule/rolling.hpp"

namespace panpipe {

Engine idle_links() {
  return [](const TaskGraph& graph, const Cluster&) { return estimate(graph); };
}

namespace {

// Of a simulated step too: what the links' sharing adds has the spread of the rest.
StepTraits traits_on_idle_links(const TaskGraph& graph, const Scenario& scenario, const Plan& plan) {
  const std::int32_t busiest = graph.device(busiest_rank(graph), 0, 0);
  return traits_of(scenario, plan, sensitivity_of(graph, estimate_times_of(graph, busiest)));
}

// What a prediction states in addition to what its timeline shows.
void state_all(Metrics& figures, const TaskGraph& graph, const Scenario& scenario, const Plan& plan, const StepTraits& traits) {
  figures.staleness = staleness(plan.schedule);
  state_evidence(figures, scenario, traits);
  state_run(figures, graph, scenario);
  state_rl(figures, scenario, plan);
}

}  // namespace

Prediction predict(const TaskGraph& graph, const Scenario& scenario, const Plan& plan, const Engine& engine) {
  Prediction prediction;
  prediction.timeline = engine(graph, scenario.cluster);
  Metrics& figures = prediction.metrics = metrics(prediction.timeline);
  prediction.terms = terms_of(graph, figures, figures.step_time_s);
  prediction.traits = traits_on_idle_links(graph, scenario, plan);
  state_all(figures, graph, scenario, plan, prediction.traits);
  return prediction;
}

EstimatedStep estimated_step(const TaskGraph& graph, const Scenario& scenario, const Plan& plan) {
  EstimatedStep step;
  step.times = estimate_times(graph, true);
  step.metrics = step_metrics(graph, step.times, TimelineKind::Estimated);
  step.traits = traits_of(scenario, plan, sensitivity_of(graph, step.times));
  state_all(step.metrics, graph, scenario, plan, step.traits);
  return step;
}

StepFigures step_figures(const TaskGraph& graph, const Scenario& scenario, const Plan& plan) {
  const std::int32_t busiest = graph.device(busiest_rank(graph), 0, 0);
  const TaskTimes times = estimate_times_of(graph, busiest);
  if (!all_finite(times)) metrics(make_timeline(graph, times, TimelineKind::Estimated));  // throws with the name of the figure
  StepFigures figures;
  figures.step_time_s = to_duration(step_time(graph, times)).base();
  figures.step_period_s = to_duration(Ticks(step_period(graph, times))).base();
  const StepMemory memory = step_memory(memory_of_ranks(graph, times));
  figures.allocated_memory_bytes = memory.allocated_bytes;
  figures.reserved_memory_bytes = memory.reserved_bytes;
  figures.peak_memory_bytes = memory.peak_bytes;
  figures.fits = memory.fits;
  figures.exposed_communication_s = exposed_communication(graph, times, busiest);
  figures.traits = traits_of(scenario, plan, sensitivity_of(graph, times));
  return figures;
}

TaskGraph answered(const Scenario& scenario, const Plan& plan, const CostModel& model) {
  TaskGraph graph = lower(scenario, plan, model);
  apply_replay(scenario, plan, ModelCosts(model, plan), graph);
  return graph;
}

Prediction predict(const Scenario& scenario, const Plan& plan, const Engine& engine) {
  const Workload workload = make_workload(scenario, plan);
  return predict(answered(scenario, plan, CostModel(scenario, workload)), scenario, plan, engine);
}

Prediction predict(const Experiment& experiment, const Plan& plan, const Engine& engine) {
  return predict(answered(experiment.scenario, plan, experiment.model), experiment.scenario, plan, engine);
}

}  // namespace panpipe
