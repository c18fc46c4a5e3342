// Network traffic of a token's copies when the token goes once to each node with one of its experts. Internal to this folder.
#pragma once

#include <vector>

#include "costmodel/cost/occupancy.hpp"
#include "costmodel/workload/graph.hpp"

namespace panpipe {

// Expected number of nodes that hold a token's experts, if `nodes` nodes divide them evenly and groups and experts are chosen at
// random.
double nodes_of_token(const Routing& routing, int nodes);

// True if a token goes once to each node: as the framework states, else by the model's routing.
bool sends_to_nodes(ExpertDispatch dispatch, const Routing& routing);

// How an all-to-all of `group`, the devices that divide the experts, uses its network: the share of copies for other nodes that
// crosses it, if each node gets one copy of a token, and if other ranks than those of the busiest node receive most.
void dispatch_over(GroupNetwork& network, const Scenario& scenario, const Routing& routing, const std::vector<int>& group);

}  // namespace panpipe
