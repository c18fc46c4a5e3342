#include "costmodel/cluster/node_wiring.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace panpipe {
namespace {

constexpr int kNone = -1;

// Index of the group that holds each device, kNone outside all groups.
std::vector<int> group_of(const std::vector<std::vector<int>>& groups, int devices) {
  std::vector<int> result(devices, kNone);
  for (std::size_t group = 0; group < groups.size(); ++group)
    for (const int device : groups[group]) result[device] = static_cast<int>(group);
  return result;
}

// Resources of a node while they are numbered. Those that a kind of path needs exist once and are made in a fixed order.
class NodeBuilder {
 public:
  explicit NodeBuilder(const NodeWiring& wiring) : wiring_(wiring), devices_(wiring.devices) {
    root_of_ = group_of(wiring.roots ? wiring.roots->groups : std::vector<std::vector<int>>{}, devices_);
    socket_of_ = group_of(wiring.sockets ? wiring.sockets->groups : std::vector<std::vector<int>>{}, devices_);
    if (!wiring.sockets) std::fill(socket_of_.begin(), socket_of_.end(), 0);
  }

  NodeTemplate build() {
    add_links();
    if (wiring_.fabric) add_switch();
    if (wiring_.pcie) add_pcie();
    if (wiring_.host) add_host();
    if (wiring_.sockets) add_socket_links();
    NodeTemplate node{devices_, resources_, {}, {}, {}};
    for (int from = 0; from < devices_; ++from)
      for (int to = 0; to < devices_; ++to) {
        std::optional<Route> route = from == to ? Route{} : find_route(from, to);
        if (route) set_bandwidth(*route, resources_);
        node.routes.push_back(std::move(route));
      }
    for (int device = 0; device < devices_; ++device) {
      node.to_host.push_back(memory_route(device, true));
      node.from_host.push_back(memory_route(device, false));
    }
    return node;
  }

 private:
  int add(std::string name, ResourceClass kind, Bandwidth bandwidth) {
    resources_.push_back({std::move(name), kind, bandwidth});
    return static_cast<int>(resources_.size()) - 1;
  }

  std::string device(int index) const { return fmt::format("{}{}", wiring_.device_word, index); }

  static ResourceClass resource_class(PathClass path) {
    if (path == PathClass::PeerPcie) return ResourceClass::PcieLink;
    if (path == PathClass::Host) return ResourceClass::HostMemory;
    return path == PathClass::HostSockets ? ResourceClass::SocketLink : ResourceClass::BridgeLink;
  }

  void add_links() {
    for (const PairLink& link : wiring_.links)
      for (const auto& [from, to] : {std::pair(link.first, link.second), std::pair(link.second, link.first)}) {
        const std::string name = fmt::format("{}.{}-{}", name_of(link.path), device(from), device(to));
        Route route;
        route.path = link.path;
        route.latency = link.latency;
        route.hops = {{add(name, resource_class(link.path), link.bandwidth), 1}};
        private_links_.emplace(std::pair(from, to), std::move(route));
      }
  }

  void add_switch() {
    for (int i = 0; i < devices_; ++i) {
      switch_out_.push_back(add(device(i) + ".switch.out", ResourceClass::SwitchPort, wiring_.fabric->port));
      switch_in_.push_back(add(device(i) + ".switch.in", ResourceClass::SwitchPort, wiring_.fabric->port));
    }
  }

  void add_pcie() {
    for (int i = 0; i < devices_; ++i) {
      pcie_out_.push_back(add(device(i) + ".pcie.out", ResourceClass::PcieLink, *wiring_.pcie));
      pcie_in_.push_back(add(device(i) + ".pcie.in", ResourceClass::PcieLink, *wiring_.pcie));
    }
    if (!wiring_.roots) return;
    for (std::size_t root = 0; root < wiring_.roots->groups.size(); ++root) {
      root_up_.push_back(add(fmt::format("root{}.up", root), ResourceClass::PcieRoot, wiring_.roots->uplink));
      root_down_.push_back(add(fmt::format("root{}.down", root), ResourceClass::PcieRoot, wiring_.roots->uplink));
    }
  }

  void add_host() {
    const HostParameters& host = *wiring_.host;
    for (int i = 0; i < devices_; ++i) {
      staging_.push_back(add(device(i) + ".staging", ResourceClass::HostMemory, host.copy));
      if (host.both_ways) both_ways_.push_back(add(device(i) + ".pcie.both", ResourceClass::PcieLink, *host.both_ways));
    }
    if (host.both_ways && !root_up_.empty()) {
      const Bandwidth both = *host.both_ways * (wiring_.roots->uplink / *wiring_.pcie);
      for (std::size_t root = 0; root < root_up_.size(); ++root)
        root_both_.push_back(add(fmt::format("root{}.both", root), ResourceClass::PcieRoot, both));
    }
    const std::size_t sockets = wiring_.sockets ? wiring_.sockets->groups.size() : 1;
    for (std::size_t socket = 0; socket < sockets; ++socket) {
      if (host.memory) memory_.push_back(add(fmt::format("socket{}.memory", socket), ResourceClass::HostMemory, *host.memory));
      if (host.relay) relay_.push_back(add(fmt::format("socket{}.relay", socket), ResourceClass::HostMemory, *host.relay));
    }
  }

  void add_socket_links() {
    const int sockets = static_cast<int>(wiring_.sockets->groups.size());
    for (int from = 0; from < sockets; ++from)
      for (int to = 0; to < sockets; ++to)
        if (from != to)
          socket_links_[{from, to}] =
              add(fmt::format("socket{}-socket{}", from, to), ResourceClass::SocketLink, wiring_.sockets->link);
  }

  std::optional<Route> find_route(int from, int to) const {
    const auto link = private_links_.find({from, to});
    if (link != private_links_.end()) return link->second;
    if (wiring_.fabric) return switch_route(from, to);
    const bool peer = wiring_.peer && wiring_.peer_access && wiring_.pcie;
    if (wiring_.host && !(peer && below_one_root(from, to))) return host_route(from, to);
    if (peer) return peer_route(from, to);
    return std::nullopt;
  }

  Route switch_route(int from, int to) const {
    Route route;
    route.path = PathClass::Switch;
    route.latency = wiring_.fabric->latency;
    route.hops = {{switch_out_[from], 1}, {switch_in_[to], 1}};
    return route;
  }

  bool below_one_root(int from, int to) const { return root_of_[from] != kNone && root_of_[from] == root_of_[to]; }

  // Up from the sender's root complex and down to the receiver's, over the link between sockets where they differ.
  void cross_roots(Route& route, int from, int to) const {
    if (root_of_[from] != kNone) route.hops.push_back({root_up_[root_of_[from]], 1});
    cross_sockets(route, socket_of_[from], socket_of_[to]);
    if (root_of_[to] != kNone) route.hops.push_back({root_down_[root_of_[to]], 1});
  }

  void cross_sockets(Route& route, int from, int to) const {
    if (from == to) return;
    route.hops.push_back({socket_links_.at({from, to}), 1});
    route.latency += wiring_.sockets->latency;
  }

  Route peer_route(int from, int to) const {
    Route route;
    route.path = PathClass::PeerPcie;
    route.latency = wiring_.peer->latency;
    route.hops.push_back({pcie_out_[from], 1});
    if (!below_one_root(from, to)) cross_roots(route, from, to);
    route.hops.push_back({pcie_in_[to], 1});
    return route;
  }

  // The bounce buffer lies in the sender's socket: written once and read once there, so its memory counts twice; a
  // receiver on another socket reads it over the link between sockets.
  Route host_route(int from, int to) const {
    Route route;
    route.path = socket_of_[from] == socket_of_[to] ? PathClass::Host : PathClass::HostSockets;
    route.latency = wiring_.host->latency;
    route.hops.push_back({staging_[from], 1});
    if (!both_ways_.empty()) {
      route.hops.push_back({both_ways_[from], 1});
      route.hops.push_back({both_ways_[to], 1});
    }
    if (below_one_root(from, to)) {
      root_both(route, from, 2);
    } else {
      root_both(route, from, 1);
      root_both(route, to, 1);
    }
    if (!pcie_out_.empty()) route.hops.push_back({pcie_out_[from], 1});
    if (!memory_.empty()) route.hops.push_back({memory_[socket_of_[from]], 2});
    if (!relay_.empty()) route.hops.push_back({relay_[socket_of_[from]], 1});
    cross_roots(route, from, to);
    if (!pcie_in_.empty()) route.hops.push_back({pcie_in_[to], 1});
    return route;
  }

  // The uplink above a device carries a copy as often, up or down.
  void root_both(Route& route, int device, int uses) const {
    if (!root_both_.empty() && root_of_[device] != kNone) route.hops.push_back({root_both_[root_of_[device]], uses});
  }

  // The route between a device and the memory of its own socket, which such a copy crosses once.
  std::optional<Route> memory_route(int device, bool away) const {
    if (pcie_out_.empty()) return std::nullopt;
    Route route;
    route.path = PathClass::Host;
    route.hops.push_back({(away ? pcie_out_ : pcie_in_)[device], 1});
    if (!both_ways_.empty()) route.hops.push_back({both_ways_[device], 1});
    root_both(route, device, 1);
    if (root_of_[device] != kNone) route.hops.push_back({(away ? root_up_ : root_down_)[root_of_[device]], 1});
    if (!memory_.empty()) route.hops.push_back({memory_[socket_of_[device]], 1});
    set_bandwidth(route, resources_);
    return route;
  }

  const NodeWiring& wiring_;
  int devices_;
  std::vector<int> root_of_, socket_of_;
  std::vector<Resource> resources_;
  std::map<std::pair<int, int>, Route> private_links_;
  std::map<std::pair<int, int>, int> socket_links_;
  std::vector<int> switch_out_, switch_in_, pcie_out_, pcie_in_, root_up_, root_down_;
  std::vector<int> staging_, both_ways_, root_both_, memory_, relay_;
};

}  // namespace

NodeTemplate make_node(const NodeWiring& wiring) { return NodeBuilder(wiring).build(); }

void set_bandwidth(Route& route, const std::vector<Resource>& resources) {
  route.bandwidth = Bandwidth(std::numeric_limits<double>::infinity());
  for (const Hop& hop : route.hops) route.bandwidth = std::min(route.bandwidth, resources[hop.resource].bandwidth / hop.uses);
}

Bandwidth ring_bandwidth(const NodeTemplate& node) {
  Bandwidth narrowest(std::numeric_limits<double>::infinity());
  if (node.devices < 2) return narrowest;
  std::vector<int> uses(node.resources.size(), 0);
  for (int from = 0; from < node.devices; ++from) {
    const std::optional<Route>& route = node.route(from, (from + 1) % node.devices);
    if (!route) return Bandwidth(0);
    for (const Hop& hop : route->hops) uses[hop.resource] += hop.uses;
  }
  for (std::size_t i = 0; i < uses.size(); ++i)
    if (uses[i] > 0) narrowest = std::min(narrowest, node.resources[i].bandwidth / uses[i]);
  return narrowest;
}

}  // namespace panpipe
