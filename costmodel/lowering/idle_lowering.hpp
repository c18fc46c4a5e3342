// A reduced task graph of a plan with different replicas, for searches that estimate many plans.
#pragma once

#include "costmodel/lowering/task_graph.hpp"

namespace panpipe {

// Like `lower`, but only for the step time and the peaks of memory on idle links. One replica represents all replicas with the
// same times, so the graph grows only with different ones. The graph lacks devices; do not simulate it.
TaskGraph lower_for_idle_links(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs);

}  // namespace panpipe
