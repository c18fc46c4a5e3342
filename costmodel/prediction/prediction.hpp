// Predicts a plan: tasks, then an engine's timeline, then metrics with their uncertainty. Every verb that predicts uses this.
#pragma once

#include <functional>

#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/prediction/evidence.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "costmodel/prediction/step_terms.hpp"
#include "costmodel/prediction/step_traits.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

// Executes the tasks. The simulation lies outside this layer and is passed in.
using Engine = std::function<Timeline(const TaskGraph&, const Cluster&)>;

Engine idle_links();  // the fast replay: estimate()

// A plan's tasks for an answer that people read: its memory is what the allocator makes of it (allocator_replay.hpp).
TaskGraph answered(const Scenario& scenario, const Plan& plan, const CostModel& model);

struct Prediction {
  Timeline timeline;
  Metrics metrics;  // with the interval of the step and its evidence
  StepTerms terms;
  StepTraits traits;
};

Prediction predict(const Experiment& experiment, const Plan& plan, const Engine& engine = idle_links());
// For a plan with other degrees than the scenario's: the workload is made in its shapes.
Prediction predict(const Scenario& scenario, const Plan& plan, const Engine& engine = idle_links());
// For a plan that is already lowered.
Prediction predict(const TaskGraph& graph, const Scenario& scenario, const Plan& plan, const Engine& engine = idle_links());

// The figures that a table of many predictions needs, for a lowered plan, by the fast replay. Makes no timeline and no evidence.
struct StepFigures {
  double step_time_s = 0;
  double step_period_s = 0;                                                             // with rolling steps (step_time.hpp)
  double allocated_memory_bytes = 0, reserved_memory_bytes = 0, peak_memory_bytes = 0;  // of the largest device
  double exposed_communication_s = 0;                                                   // of the busiest rank's device
  bool fits = true;                                                                     // as Metrics::fits
  StepTraits traits;
};
StepFigures step_figures(const TaskGraph& graph, const Scenario& scenario, const Plan& plan);

}  // namespace panpipe
