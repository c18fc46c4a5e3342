// A plan to its prediction: tasks, then an engine's timeline, then the figures and how sure they are. Every verb that predicts
// goes through here.
#pragma once

#include <functional>

#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/prediction/evidence.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

// What plays the tasks. The simulation is outside this layer and is handed in.
using Engine = std::function<Timeline(const TaskGraph&, const Cluster&)>;

Engine idle_links();  // the fast replay: estimate()

struct Prediction {
  Timeline timeline;
  Metrics metrics;  // with the interval of the step and its evidence
  StepTerms terms;
  Likeness kind;
};

Prediction predict(const Experiment& experiment, const Plan& plan, const Engine& engine = idle_links());
// Of a plan with other degrees than the scenario's: the workload is made in its shapes.
Prediction predict(const Scenario& scenario, const Plan& plan, const Engine& engine = idle_links());
// Of a plan lowered before.
Prediction predict(const TaskGraph& graph, const Scenario& scenario, const Plan& plan, const Engine& engine = idle_links());

// What of a plan lowered before a table of many predictions needs, by the fast replay: no timeline is made, and no evidence
// asked.
struct StepFigures {
  double step_time_s = 0;
  double step_period_s = 0;  // of rolling steps (step_time.hpp)
  double peak_memory_bytes = 0;
  double exposed_communication_s = 0;  // of the device of the busiest rank
  Likeness kind;
};
StepFigures step_figures(const TaskGraph& graph, const Scenario& scenario, const Plan& plan);

}  // namespace panpipe
