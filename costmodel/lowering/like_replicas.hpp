// Replicas of a plan that are not alike: on other types of device, over other routes. Private to this folder.
#pragma once

#include <vector>

#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/plan/lowering_costs.hpp"

namespace panpipe {

// For each replica the first one that is like it: the same devices in the same places, whose passes and hand-overs
// take the same times. All 0 where one replica stands for all.
std::vector<int> like_replicas(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs);

// Whether two replicas do the same in the same order, if not for as long.
bool same_tasks(const TaskGraph& one, const TaskGraph& other);

// Which replicas a joined graph has: every one, or the first of those that do everything at the same times on idle links.
enum class Joined { All, OneOfEqual };

// One graph of several replicas, each with ranks of its own: `of_replica` has the graph of each replica that `like` names, made
// for it alone. Collectives among replicas become collectives among ranks.
TaskGraph join_replicas(const Plan& plan, const std::vector<int>& like, const std::vector<TaskGraph>& of_replica, Joined joined);

}  // namespace panpipe
