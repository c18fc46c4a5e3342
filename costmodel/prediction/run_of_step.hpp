// The cost of the whole run that a scenario states, from a predicted step.
#pragma once

#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

// Sets `figures.run` if the scenario states a run. Throws InputError at the run's key if the step does not support it (tokens for
// a model that reads none).
void state_run(Metrics& figures, const TaskGraph& graph, const Scenario& scenario);

// Sets `figures.rl` if the scenario states rollouts.
void state_rl(Metrics& figures, const Scenario& scenario, const Plan& plan);

}  // namespace panpipe
