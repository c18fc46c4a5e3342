// A smaller graph of a plan whose replicas are not all alike, for searches that estimate many plans.
#pragma once

#include "costmodel/lowering/task_graph.hpp"

namespace panpipe {

// As `lower`, for the step time and the peaks of memory on idle links alone: the first of the replicas that do everything at the
// same times stands for them, so that the graph grows with the replicas that differ. It has not all devices; do not simulate it.
TaskGraph lower_for_idle_links(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs);

}  // namespace panpipe
