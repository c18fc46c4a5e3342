// Collectives by algorithm; the fastest is taken (docs/models/collectives.md).
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "costmodel/cost/occupancy.hpp"
#include "costmodel/cost/profiled.hpp"
#include "costmodel/cost/ring_hops.hpp"

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
  bool switched = false;  // every hop inside a node goes through its switch
  bool multicast = true;  // every member's switch can reduce
  double fabric = 0;      // bytes per second of a hop in a node, reached
  double network = 0;     // of the ring's hop between nodes, reached
  double per_device = 0;  // of one member's share of the network
  double hop_latency = 0;
};

Group group_of(const Cluster& cluster, const Calibration& calibration, const std::vector<int>& devices,
               const GroupNetwork& network) {
  Group g;
  g.members = static_cast<int>(devices.size());
  std::map<int, int> per_node;
  for (int d : devices) {
    ++per_node[cluster.devices[static_cast<std::size_t>(d)].node];
    g.multicast = g.multicast && cluster.type_of(d).multicast;
  }
  g.nodes = static_cast<int>(per_node.size());
  for (const auto& [node, count] : per_node) g.in_node = std::max(g.in_node, count);
  const RingHops hops = ring_hops(cluster, devices);
  g.fabric = hops.reached(calibration);
  g.switched = hops.switched;
  g.hop_latency = hops.latency;
  if (g.nodes == 1) {
    if (g.switched) g.fabric *= small_ring(g.members);
    return g;
  }
  g.network = calibration.network_efficiency * network.ring;
  g.per_device = calibration.network_efficiency * network.member;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const Route route = cluster.route(devices[i], devices[(i + 1) % devices.size()]);
    if (route.path == PathClass::Network) g.hop_latency = std::max(g.hop_latency, route.latency.base());
  }
  return g;
}

double bytes_per_member(CollectiveKind kind, int n, double bytes) {
  const double share = static_cast<double>(n - 1) / n;
  return (kind == CollectiveKind::AllReduce ? 2.0 : 1.0) * share * bytes;
}

double wire_bytes(const CollectiveCost& base) {
  return bytes_per_member(base.kind, base.members, static_cast<double>(base.bytes.base()));
}

CollectiveCost finish(CollectiveCost cost, Algorithm algorithm, double latency, double wire, double bandwidth) {
  cost.algorithm = algorithm;
  cost.latency = Duration(latency);
  cost.wire_bytes = Bytes(static_cast<std::int64_t>(std::llround(wire)));
  cost.time = Duration(latency + wire / bandwidth);
  return cost;
}

// Profiles measure all-reduces alone: other kinds are computed, and say so.
std::optional<CollectiveCost> as_measured(const Profile* profile, CollectiveCost base) {
  if (profile == nullptr || base.kind != CollectiveKind::AllReduce) return std::nullopt;
  const TransferTable* table = profile->collective("all_reduce", base.members);
  if (table == nullptr) return std::nullopt;
  base.algorithm = Algorithm::Ring;
  base.source = source_of(*table, base.bytes);
  base.time = base.latency = table->at(base.bytes);
  return base;
}

// Links as written: no software latency, the narrowest link carries every step of the ring.
CollectiveCost over_given_links(CollectiveCost base, const RingHops& hops) {
  base.source = CostSource::Given;
  const int steps = (base.kind == CollectiveKind::AllReduce ? 2 : 1) * (base.members - 1);
  return finish(base, Algorithm::Ring, steps * hops.latency, wire_bytes(base), hops.bandwidth);
}

CollectiveCost in_one_node(const CollectiveCost& base, const Group& g, double start) {
  const CollectiveCost ring = finish(base, Algorithm::Ring, start, wire_bytes(base), g.fabric);
  if (!(base.kind == CollectiveKind::AllReduce && g.multicast && g.switched && g.members > 2)) return ring;
  const CollectiveCost nvls = finish(base, Algorithm::Nvls, start, static_cast<double>(base.bytes.base()),
                                     g.fabric / small_ring(g.members) * kNvlsOverRing);
  return nvls.time < ring.time ? nvls : ring;
}

CollectiveCost between_nodes(const CollectiveCost& base, const Group& g, const Calibration& c, double start) {
  const auto bytes = static_cast<double>(base.bytes.base());
  const double levels = std::log2(g.nodes);
  const double hop = g.in_node > 1 ? std::min(g.fabric, g.network) : g.network;
  CollectiveCost best = finish(base, Algorithm::Ring, start * (1 + levels), wire_bytes(base), hop);
  if (base.kind != CollectiveKind::AllReduce) return best;
  // Up and down a binary tree over the nodes, a chain inside each: latency grows with the depth, not with the members.
  const CollectiveCost tree = finish(base, Algorithm::Tree, start + 2 * levels * (c.collective_latency.base() + g.hop_latency),
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

// On links whose rates are known, at the efficiencies of a type of device.
CollectiveCost computed(const CollectiveCost& base, const Cluster& cluster, const Calibration& c, const std::vector<int>& devices,
                        const GroupNetwork& network) {
  const Group g = group_of(cluster, c, devices, network);
  const double start = c.collective_latency.base() * (1 + std::log2(g.members));
  return g.nodes == 1 ? in_one_node(base, g, start) : between_nodes(base, g, c, start);
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
  if (devices.size() < 2) return collective(kind, size, devices, {});
  return collective(kind, size, devices, Occupancy::around(scenario_->cluster, devices).network_of(devices));
}

CollectiveCost CostModel::collective(CollectiveKind kind, Bytes size, const std::vector<int>& devices,
                                     const GroupNetwork& network) const {
  const Cluster& cluster = scenario_->cluster;
  CollectiveCost base;
  base.kind = kind;
  base.members = static_cast<int>(devices.size());
  base.bytes = size;
  if (base.members <= 1 || kind == CollectiveKind::None) return base;
  if (const auto measured = as_measured(scenario_->profile.get(), base)) return *measured;
  if (cluster.given) return over_given_links(base, ring_hops(cluster, devices));
  // Members of unlike types go at the pace of the slowest.
  std::set<std::int32_t> types;
  for (const int device : devices) types.insert(cluster.devices[static_cast<std::size_t>(device)].type);
  CollectiveCost slowest = base;
  for (const std::int32_t type : types)
    if (const CollectiveCost cost = computed(base, cluster, calibration(type), devices, network); cost.time > slowest.time)
      slowest = cost;
  return slowest;
}

}  // namespace panpipe
