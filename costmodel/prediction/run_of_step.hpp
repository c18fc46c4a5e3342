// What the whole run takes that a scenario states, from a predicted step of it.
#pragma once

#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

// Sets `figures.run` where the scenario states a run. InputError at the run's key where the step does not allow it (tokens of a
// model that reads none).
void state_run(Metrics& figures, const TaskGraph& graph, const Scenario& scenario);

}  // namespace panpipe
