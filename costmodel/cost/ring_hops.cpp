#include "costmodel/cost/ring_hops.hpp"

#include <algorithm>
#include <map>

namespace panpipe {

RingHops ring_hops(const Cluster& cluster, const std::vector<int>& devices) {
  RingHops ring;
  std::map<std::int32_t, int> uses;
  std::vector<Route> routes;
  int in_node = -1;
  const auto node = [&](int device) { return cluster.devices[device].node; };
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const int from = devices[i], to = devices[(i + 1) % devices.size()];
    if (from == to || node(from) != node(to)) continue;
    if (cluster.switched && node(from) == in_node) continue;  // every hop has ports of its own, and is like the node's first
    in_node = node(from);
    routes.push_back(cluster.route(from, to));
    const Route& route = routes.back();
    ring.switched = ring.switched && route.path == PathClass::Switch;
    ring.nvlink = ring.nvlink && (route.path == PathClass::Bridge || route.path == PathClass::Switch);
    ring.latency = std::max(ring.latency, route.latency.base());
    for (const Hop& hop : route.hops) uses[hop.resource] += hop.uses;
  }
  ring.bandwidth = routes.empty() ? cluster.fabric_bandwidth.base() : routes.front().bandwidth.base();
  for (const Route& route : routes) ring.bandwidth = std::min(ring.bandwidth, route.bandwidth.base());
  for (const auto& [resource, count] : uses)
    ring.bandwidth = std::min(ring.bandwidth, cluster.resources[resource].bandwidth.base() / count);
  return ring;
}

}  // namespace panpipe
