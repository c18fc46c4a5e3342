// Compares the replicas of a plan, which may use other types of device or other routes. Private to this folder.
#pragma once

#include <vector>

#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/plan/lowering_costs.hpp"

namespace panpipe {

// For each replica the first one like it: the same devices in the same places, with equal times of passes and hand-overs. All
// entries are 0 if one replica represents all.
std::vector<int> like_replicas(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs);

// True if two replicas run the same tasks in the same order, even with different times.
bool same_tasks(const TaskGraph& one, const TaskGraph& other);

// The replicas in a joined graph: all, or only the first of those with equal times on idle links.
enum class Joined { All, OneOfEqual };

// Joins several replicas into one graph, each with its own ranks. `of_replica` holds the graph of each replica that `like` names,
// lowered for it alone. Collectives among replicas become collectives among ranks.
TaskGraph join_replicas(const Plan& plan, const std::vector<int>& like, const std::vector<TaskGraph>& of_replica, Joined joined);

}  // namespace panpipe
