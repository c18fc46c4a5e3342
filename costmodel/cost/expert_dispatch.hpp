// What a token's copies cross where it goes once to each node that has one of its experts. Internal to this folder.
#pragma once

#include <vector>

#include "costmodel/cluster/cluster.hpp"
#include "costmodel/workload/graph.hpp"

namespace panpipe {

// Nodes that a token's experts lie on, of so many that share them out alike; groups and experts are chosen at random.
double nodes_of_token(const Routing& routing, int nodes);

// Of the copies of tokens for other nodes, the share that crosses the network when each node gets one: nodes over experts of a
// token. `group`: devices that share out the experts. 1 inside a node.
double copies_over_network(const Routing& routing, const Cluster& cluster, const std::vector<int>& group);

}  // namespace panpipe
