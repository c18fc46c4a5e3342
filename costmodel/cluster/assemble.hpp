// Builds a Cluster from nodes and a network. Only resources are stored and routes are computed on request, so thousands of
// devices load in milliseconds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/cluster/cluster.hpp"
#include "costmodel/cluster/node_wiring.hpp"

namespace panpipe {

// The network between nodes: each node is a leaf of a fat tree, or the NICs of equal number are (rails).
struct NetworkParameters {
  int nics_per_node = 1;
  Bandwidth nic{0};                // of each NIC, one direction
  Duration latency{0};             // device to device
  Duration post{0};                // host time per message
  double oversubscription = 1;     // k > 1: a node's uplink carries its NICs' total / k; 1: the tree never blocks
  std::optional<Bandwidth> spine;  // if set, all traffic between nodes, or between rails, shares this bandwidth
  bool rails = false;              // NIC i of every node is below switches of its own; oversubscription is theirs
  bool sharp = false;              // the switches sum what they receive
};

// A group of identical nodes.
struct NodeGroup {
  DeviceType type;
  int nodes = 1;
  NodeWiring wiring;
  std::optional<NetworkParameters> network;
  Bytes host_memory{0};  // of a node; 0: not stated
  double clock = 1;      // share of the data sheet's that the type's rates hold already
};

// Every group needs a network if there is more than one node. Does not throw.
Cluster assemble_cluster(std::string name, const std::vector<NodeGroup>& groups);

// The in-place form: one link for each ordered pair of devices. Unlimited bandwidth and a table share no resource.
struct GivenLink {
  Duration latency{0};
  Bandwidth bandwidth{0};
  std::shared_ptr<const TransferTable> table;
};
Cluster given_cluster(int devices, Bytes memory, std::optional<double> usable, const GivenLink& link);

}  // namespace panpipe
