// Data-parallel copies of a plan that are not alike: on other types of device, over other routes. Private to this folder.
#pragma once

#include <vector>

#include "costmodel/plan/lowering_costs.hpp"

namespace panpipe {

// For each data-parallel copy the first one that is like it: the same devices in the same places, whose passes and hand-overs
// take the same times. All 0 where one copy stands for all.
std::vector<int> like_copies(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs);

// Whether two copies do the same in the same order, if not for as long.
bool same_tasks(const TaskGraph& one, const TaskGraph& other);

// One graph of all copies, each with ranks of its own: `of_copy` has the graph of each copy that `like` names, made for it alone.
// Collectives among copies become collectives among ranks.
TaskGraph join_copies(const Plan& plan, const std::vector<int>& like, const std::vector<TaskGraph>& of_copy);

}  // namespace panpipe
