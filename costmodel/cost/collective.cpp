// Collectives by algorithm; the fastest is taken (docs/models/collectives.md).
#include <algorithm>
#include <cmath>
#include <map>

#include "costmodel/cost/profiled.hpp"

namespace panpipe {
namespace {

// Share of the bandwidth of a large ring that a small one reaches behind a switch: 1 - 0.14 (2/n)^2. All-reduce of 1 GiB on
// n = 2, 4, 8 A100: 197.3, 221.9, 229.4 GB/s (VIA-Research/vTrain, its look-up tables).
double small_ring(int members) { return 1.0 - 0.14 * (2.0 / members) * (2.0 / members); }

// Reduction in the switch: all-reduce bus bandwidth 475-482 GB/s against 367.6 of the ring on 8 H200 (NCCL issues). The
// switch receives every byte once, so 480 = 2 (7/8) x share x 450 GB/s gives 0.61 of the link, 0.75 of a ring's 0.82.
constexpr double kNvlsOverRing = 0.75;

// A double binary tree's bandwidth over a ring's; NCCL's own choice assumes as much (tuning.cc).
constexpr double kTreeOverRing = 0.92;

struct Group {
  int members = 1;
  int nodes = 1;
  int in_node = 1;        // members in the fullest node
  double fabric = 0;      // bytes per second of a hop in a node, reached
  double network = 0;     // of the ring's hop between nodes, reached
  double per_device = 0;  // of one member's share of the NICs
};

// A ring's hop in a node, all hops busy: through the switch, or the narrowest of its routes where hops share resources.
double fabric_of_ring(const Cluster& cluster, const Calibration& calibration, const std::vector<int>& devices, double& latency) {
  std::map<std::int32_t, int> uses;
  std::vector<Route> routes;
  bool bridges_only = true;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const int from = devices[i], to = devices[(i + 1) % devices.size()];
    if (from == to || cluster.devices[static_cast<std::size_t>(from)].node != cluster.devices[static_cast<std::size_t>(to)].node)
      continue;
    routes.push_back(cluster.route(from, to));
    bridges_only &= routes.back().path == PathClass::Bridge || routes.back().path == PathClass::Switch;
    latency = std::max(latency, routes.back().latency.base());
    for (const Hop& hop : routes.back().hops) uses[hop.resource] += hop.uses;
  }
  double narrowest = routes.empty() ? cluster.fabric_bandwidth.base() : routes.front().bandwidth.base();
  for (const Route& route : routes) narrowest = std::min(narrowest, route.bandwidth.base());
  for (const auto& [resource, count] : uses)
    narrowest = std::min(narrowest, cluster.resources[static_cast<std::size_t>(resource)].bandwidth.base() / count);
  // Links through the host are stated as measured; only the NVLink fabric has an efficiency over its data sheet.
  return bridges_only ? narrowest * calibration.fabric_efficiency : narrowest;
}

Group group_of(const Cluster& cluster, const Calibration& calibration, const std::vector<int>& devices, double& hop_latency) {
  Group g;
  g.members = static_cast<int>(devices.size());
  std::map<int, int> per_node;
  for (int d : devices) ++per_node[cluster.devices[static_cast<std::size_t>(d)].node];
  g.nodes = static_cast<int>(per_node.size());
  for (const auto& [node, count] : per_node) g.in_node = std::max(g.in_node, count);
  g.fabric = fabric_of_ring(cluster, calibration, devices, hop_latency);
  if (cluster.switched && g.nodes == 1) g.fabric *= small_ring(g.members);
  if (g.nodes > 1) {
    // The node's other devices are in groups of the same shape, whose rings share the NICs.
    const int node_size = std::max(1, cluster.size() / std::max(1, cluster.nodes));
    const double rate = calibration.network_efficiency * cluster.node_network_bandwidth.base();
    const int rings = std::max(1, node_size / g.in_node);
    g.network = rate / rings;
    g.per_device = rate / node_size;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      const int to = devices[(i + 1) % devices.size()];
      const Route route = cluster.route(devices[i], to);
      if (route.path == PathClass::Network) hop_latency = std::max(hop_latency, route.latency.base());
    }
  }
  return g;
}

double bytes_per_member(CollectiveKind kind, int n, double bytes) {
  const double share = static_cast<double>(n - 1) / n;
  return (kind == CollectiveKind::AllReduce ? 2.0 : 1.0) * share * bytes;
}

CollectiveCost finish(CollectiveCost cost, Algorithm algorithm, double latency, double wire, double bandwidth) {
  cost.algorithm = algorithm;
  cost.latency = Duration(latency);
  cost.wire_bytes = Bytes(static_cast<std::int64_t>(std::llround(wire)));
  cost.time = Duration(latency + wire / bandwidth);
  return cost;
}

}  // namespace

std::string_view name_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::Ring:
      return "ring";
    case Algorithm::Tree:
      return "tree";
    case Algorithm::Nvls:
      return "nvls";
    case Algorithm::Hierarchical:
      return "hierarchical";
  }
  return "?";
}

CollectiveCost CostModel::collective(CollectiveKind kind, Bytes size, const std::vector<int>& devices) const {
  const Cluster& cluster = scenario_->cluster;
  CollectiveCost base;
  base.kind = kind;
  base.members = static_cast<int>(devices.size());
  base.bytes = size;
  if (base.members <= 1 || kind == CollectiveKind::None) return base;
  if (const Profile* profile = scenario_->profile.get(); profile && kind == CollectiveKind::AllReduce) {
    if (const TransferTable* table = profile->collective("all_reduce", base.members)) {
      base.algorithm = Algorithm::Ring;
      base.source = source_of(*table, size);
      base.time = base.latency = table->at(size);
      return base;
    }
  }
  const DeviceType& type = cluster.type_of(devices.front());
  const Calibration& c = calibration(cluster.devices[static_cast<std::size_t>(devices.front())].type);
  const double bytes = static_cast<double>(size.base());
  const double wire = bytes_per_member(kind, base.members, bytes);
  double hop_latency = 0;
  if (cluster.given) {  // links as given: no software latency, the narrowest link carries every step of the ring
    Calibration ideal;
    ideal.fabric_efficiency = ideal.network_efficiency = 1.0;
    const double bandwidth = fabric_of_ring(cluster, ideal, devices, hop_latency);
    const int steps = (kind == CollectiveKind::AllReduce ? 2 : 1) * (base.members - 1);
    return finish(base, Algorithm::Ring, steps * hop_latency, wire, bandwidth);
  }
  const Group g = group_of(cluster, c, devices, hop_latency);
  const double start = c.collective_latency.base() * (1 + std::log2(g.members));
  const bool reduces = kind == CollectiveKind::AllReduce;
  if (g.nodes == 1) {
    const CollectiveCost ring = finish(base, Algorithm::Ring, start, wire, g.fabric);
    if (!(reduces && type.multicast && cluster.switched && g.members > 2)) return ring;
    const CollectiveCost nvls = finish(base, Algorithm::Nvls, start, bytes, g.fabric / small_ring(g.members) * kNvlsOverRing);
    return nvls.time < ring.time ? nvls : ring;
  }
  const double levels = std::log2(g.nodes);
  const double hop = g.in_node > 1 ? std::min(g.fabric, g.network) : g.network;
  CollectiveCost best = finish(base, Algorithm::Ring, start * (1 + levels), wire, hop);
  if (!reduces) return best;
  // Up and down a binary tree over the nodes, a chain inside each: latency grows with the depth, not with the members.
  const CollectiveCost tree = finish(base, Algorithm::Tree, start + 2 * levels * (c.collective_latency.base() + hop_latency),
                                     2 * bytes, hop * kTreeOverRing);
  if (tree.time < best.time) best = tree;
  if (g.in_node > 1) {
    // Reduce-scatter in the node, all-reduce of the shards between nodes (a ring per member), all-gather in the node.
    const double inside = bytes_per_member(CollectiveKind::AllReduce, g.in_node, bytes);
    const double between = bytes_per_member(CollectiveKind::AllReduce, g.nodes, bytes / g.in_node);
    // Three collectives one after the other, each with its start.
    const double starts = c.collective_latency.base() * (2 * (1 + std::log2(g.in_node)) + (1 + levels) * (1 + levels));
    CollectiveCost staged = finish(base, Algorithm::Hierarchical, starts, between, g.per_device);
    staged.time += Duration(inside / g.fabric);
    staged.latency += Duration(inside / g.fabric);
    if (staged.time < best.time) best = staged;
  }
  return best;
}

}  // namespace panpipe
