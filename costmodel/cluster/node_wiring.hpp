// Turns the wiring parameters of a cluster file into a node's shared resources and the route of every pair of its devices. Rules
// and their limits: docs/models/topology.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/cluster/cluster.hpp"

namespace panpipe {

// All bandwidths are for one direction unless stated otherwise.
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
  Duration latency{0};                   // added by crossing between sockets
};

struct PeerParameters {  // PCIe peer access
  Duration latency{0};
};

// A copy from one device to another through host memory.
struct HostParameters {
  Bandwidth copy{0};                   // of one such copy alone; a device's outgoing copies share it
  std::optional<Bandwidth> both_ways;  // total of the copies out of and into one device; a root's uplink has as large a share
  std::optional<Bandwidth> memory;     // of one socket's host memory; each copy writes and reads it
  Duration latency{0};
  std::optional<Bandwidth> relay{};  // total of the copies between devices through one socket's processor
};

struct NodeWiring {
  int devices = 1;
  std::string device_word = "gpu";  // in names of resources
  bool peer_access = true;          // of the device type
  std::optional<SwitchParameters> fabric;
  std::vector<PairLink> links;
  std::optional<Bandwidth> pcie;    // of each device
  std::optional<Bandwidth> slot{};  // the most that the stated generation and lanes carry; `pcie` and `host` follow already
  std::optional<RootParameters> roots;
  std::optional<SocketParameters> sockets;
  std::optional<PeerParameters> peer;
  std::optional<HostParameters> host;
};

// One node's resources (names without the node) and routes (hops count from the node's first resource).
struct NodeTemplate {
  int devices = 1;
  std::vector<Resource> resources;
  std::vector<std::optional<Route>> routes;  // [from * devices + to]; empty if no path exists
  // Routes of each device to and from the memory of its socket (host_path.hpp); empty if no PCIe link is known.
  std::vector<std::optional<Route>> to_host{}, from_host{};

  const std::optional<Route>& route(int from, int to) const {
    return routes[static_cast<std::size_t>(from) * static_cast<std::size_t>(devices) + static_cast<std::size_t>(to)];
  }
};

NodeTemplate make_node(const NodeWiring& wiring);

// The rate of each hop of the ring 0 -> 1 -> ... -> 0 while all hops are busy, shared max-min fairly: the capacity of the
// narrowest resource divided by its uses. Infinite for a single device; 0 if a hop has no path.
Bandwidth ring_bandwidth(const NodeTemplate& node);

// Sets route.bandwidth from its hops.
void set_bandwidth(Route& route, const std::vector<Resource>& resources);

}  // namespace panpipe
