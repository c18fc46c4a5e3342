// Network traffic of a token's copies when the token goes once to each node with one of its experts. Internal to this folder.
#pragma once

#include <vector>

#include "costmodel/cluster/cluster.hpp"
#include "costmodel/profile/framework.hpp"
#include "costmodel/workload/graph.hpp"

namespace panpipe {

// Expected number of nodes that hold a token's experts, if `nodes` nodes divide them evenly and groups and experts are chosen at
// random.
double nodes_of_token(const Routing& routing, int nodes);

// True if a token goes once to each node: as the framework states, else by the model's routing.
bool sends_to_nodes(ExpertDispatch dispatch, const Routing& routing);

// The share of token copies for other nodes that crosses the network when each node gets one copy: nodes divided by experts per
// token. `group` holds the devices that divide the experts. 1 inside a node.
double copies_over_network(const Routing& routing, const Cluster& cluster, const std::vector<int>& group);

}  // namespace panpipe
