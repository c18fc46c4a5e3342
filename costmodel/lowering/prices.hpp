// What a plan's tasks cost, without the tasks: for whoever keeps an order and changes costs, as a fit does.
#pragma once

#include <vector>

#include "costmodel/lowering/task_graph.hpp"

namespace panpipe {

// Ticks, at the places that a task graph has programs, flows, links and points at; of a point, from the end of its pass.
struct Prices {
  std::vector<double> programs, flows, links, points;
};
Prices prices_of(const TaskGraph& graph);

// Those of lower(scenario, plan, model), as far as they can be without its tasks. Where programs or flows come to be with the
// tasks (copies to the host), everything is lowered.
Prices prices_of(const Scenario& scenario, const Plan& plan, const CostModel& model);

}  // namespace panpipe
