// The costs of a plan's tasks without the tasks, for callers that keep an order and change costs, such as a fit.
#pragma once

#include <vector>

#include "costmodel/lowering/task_graph.hpp"

namespace panpipe {

// In ticks, indexed like the programs, flows, links and points of a task graph. A point is measured from the end of its pass.
struct Prices {
  std::vector<double> programs, flows, links, points;
};
Prices prices_of(const TaskGraph& graph);

// The prices of lower(scenario, plan, model), where possible without building its tasks. If programs or flows arise with the
// tasks (copies to the host), everything is lowered.
Prices prices_of(const Scenario& scenario, const Plan& plan, const CostModel& model);

}  // namespace panpipe
