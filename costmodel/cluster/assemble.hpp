// Nodes and a network -> a Cluster. Routes are computed when asked for; only resources are stored, so thousands of
// devices load in milliseconds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/cluster/cluster.hpp"
#include "costmodel/cluster/node_wiring.hpp"

namespace panpipe {

// How nodes are joined: each node is a leaf of a fat tree.
struct NetworkParameters {
  int nics_per_node = 1;
  Bandwidth nic{0};                // of each, one direction
  Duration latency{0};             // device to device
  Duration post{0};                // the host's time for one message
  double oversubscription = 1;     // k > 1: a node's uplink carries its NICs' total / k; otherwise the tree never blocks
  std::optional<Bandwidth> spine;  // when set, everything between nodes shares this much
};

// Equal nodes.
struct NodeGroup {
  DeviceType type;
  int nodes = 1;
  NodeWiring wiring;
  std::optional<NetworkParameters> network;
};

// More than one node needs a network in every group. Does not throw.
Cluster assemble_cluster(std::string name, const std::vector<NodeGroup>& groups);

// The in-place form: one link for each ordered pair of devices. Unlimited bandwidth and a table share nothing.
struct GivenLink {
  Duration latency{0};
  Bandwidth bandwidth{0};
  std::shared_ptr<const TransferTable> table;
};
Cluster given_cluster(int devices, Bytes memory, std::optional<double> usable, const GivenLink& link);

}  // namespace panpipe
