// How the devices of one node are wired: parameters as a cluster file states them -> shared resources and the route of
// every pair inside the node. Rules and their limits: docs/models/topology.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/cluster/cluster.hpp"

namespace panpipe {

// All bandwidths are of one direction unless said otherwise.
struct SwitchParameters {
  Bandwidth port{0};  // of each device
  Duration latency{0};
};

struct PairLink {  // a private link between two devices; each direction is a resource of its own
  int first = 0, second = 0;
  PathClass path = PathClass::Bridge;
  Bandwidth bandwidth{0};
  Duration latency{0};
};

struct RootParameters {  // devices behind one PCIe switch or root port share its upstream link
  std::vector<std::vector<int>> groups;
  Bandwidth uplink{0};
};

struct SocketParameters {
  std::vector<std::vector<int>> groups;  // every device in exactly one
  Bandwidth link{0};                     // between each ordered pair of sockets
  Duration latency{0};                   // what crossing adds
};

struct PeerParameters {  // PCIe peer access
  Duration latency{0};
};

// A copy from one device to another through host memory.
struct HostParameters {
  Bandwidth copy{0};                   // what one such copy gets alone; a device's outgoing copies share it
  std::optional<Bandwidth> both_ways;  // copies out of and into one device together
  std::optional<Bandwidth> memory;     // of one socket's host memory; each copy writes and reads it
  Duration latency{0};
};

struct NodeWiring {
  int devices = 1;
  std::string device_word = "gpu";  // in names of resources
  bool peer_access = true;          // the device type's
  std::optional<SwitchParameters> fabric;
  std::vector<PairLink> links;
  std::optional<Bandwidth> pcie;  // of each device
  std::optional<RootParameters> roots;
  std::optional<SocketParameters> sockets;
  std::optional<PeerParameters> peer;
  std::optional<HostParameters> host;
};

// One node's resources (names without the node) and routes (hops count from the node's first resource).
struct NodeTemplate {
  int devices = 1;
  std::vector<Resource> resources;
  std::vector<std::optional<Route>> routes;  // [from * devices + to]; empty where there is no way
  // Of each device, to and from the memory of its socket (host_path.hpp); empty where no PCIe link is known.
  std::vector<std::optional<Route>> to_host{}, from_host{};

  const std::optional<Route>& route(int from, int to) const {
    return routes[static_cast<std::size_t>(from) * static_cast<std::size_t>(devices) + static_cast<std::size_t>(to)];
  }
};

NodeTemplate make_node(const NodeWiring& wiring);

// What each hop of the ring 0 -> 1 -> ... -> 0 gets while all hops are busy, max-min fairly: the narrowest resource's
// capacity over the uses of it. Infinite for a single device; 0 when a hop has no way.
Bandwidth ring_bandwidth(const NodeTemplate& node);

// Sets route.bandwidth from its hops.
void set_bandwidth(Route& route, const std::vector<Resource>& resources);

}  // namespace panpipe
