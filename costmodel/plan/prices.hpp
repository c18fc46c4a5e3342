// What a plan's tasks cost, without the tasks: for who keeps an order and changes costs, as a fit does.
#pragma once

#include "costmodel/plan/task_graph.hpp"

namespace panpipe {

// A graph whose programs, flows and links are those of lower(scenario, plan, model), at the same places, and which may be without
// tasks. Where they come to be with the tasks (copies to the host), it is the whole graph.
TaskGraph prices_of(const Scenario& scenario, const Plan& plan, const CostModel& model);

}  // namespace panpipe
