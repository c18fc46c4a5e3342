// The cost of collectives by algorithm; the fastest is used (docs/models/collectives.md).
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "base/index.hpp"
#include "costmodel/cost/measured_collective.hpp"
#include "costmodel/cost/nccl_model.hpp"
#include "costmodel/cost/occupancy.hpp"
#include "costmodel/cost/profiled.hpp"
#include "costmodel/cost/ring_hops.hpp"

namespace panpipe {
namespace {

// Share of the bandwidth of a large ring that a small one reaches behind a switch: 1 - 0.14 (2/n)^2. All-reduce of 1 GiB on
// n = 2, 4, 8 A100: 197.3, 221.9, 229.4 GB/s (VIA-Research/vTrain, its look-up tables).
double small_ring(int members) { return 1.0 - 0.14 * (2.0 / members) * (2.0 / members); }

// Reduction in the switch: all-reduce bus bandwidth 475-482 GB/s against 367.6 of the ring on 8 H200 (NCCL issues). The
// switch receives every byte once, so 480 = 2 (7/8) x share x 450 GB/s gives 0.61 of the link, 0.75 of a ring's 0.82. NCCL counts
// 0.85 of the rate on Hopper and 0.74 on Blackwell (nvlsEfficiency, src/tuning/nvls.cc): 8 GB200 then reach 825 GB/s, measured
// 811 (lixueduan.com, GB200 MNNVL), and 72 929, measured 839 (coreweave/nccl-tests pull request 43).
constexpr double kNvlsOverRing = 0.75, kBlackwellOverHopper = 0.74 / 0.85;

double reduced_over_ring(const DeviceType& type) {
  return type.compute_capability >= 10 ? kNvlsOverRing * kBlackwellOverHopper : kNvlsOverRing;
}

NcclGroup group_of(const Cluster& cluster, const Calibration& calibration, const std::vector<int>& devices,
                   const GroupNetwork& network) {
  NcclGroup g;
  g.members = static_cast<int>(devices.size());
  g.multicast = true;
  std::map<int, int> per_node;
  double reduced = 1;
  for (const int d : devices) {
    ++per_node[cluster.devices[d].node];
    reduced = std::min(reduced, reduced_over_ring(cluster.type_of(d)));
    g.multicast = g.multicast && cluster.type_of(d).multicast;
    g.post = std::max(g.post, cluster.node_of(d).post.base());
  }
  g.nodes = static_cast<int>(per_node.size());
  for (const auto& [node, count] : per_node) g.in_node = std::max(g.in_node, count);
  const RingHops hops = ring_hops(cluster, devices);
  g.fabric = hops.reached(calibration);
  g.nvlink = hops.nvlink;
  g.multicast = g.multicast && hops.switched;
  g.reduced = g.fabric * reduced;
  g.at_once = network.at_once;
  if (g.nodes == 1) {
    if (hops.switched) g.fabric *= small_ring(g.members);
    return g;
  }
  g.network = calibration.network_efficiency * network.ring;
  g.peers = calibration.network_efficiency * network.peers;
  g.sharp = fabric_of(cluster).reduces;
  g.crossing = network.crossing;
  g.copies = network.copies;
  g.member = calibration.network_efficiency * std::min(network.ring, network.member);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const Route route = cluster.route(devices[i], devices[(i + 1) % devices.size()]);
    if (route.path == PathClass::Network) g.hop = std::max(g.hop, route.latency.base());
  }
  return g;
}

// Profiles measure only all-reduces. Other kinds are computed and marked so.
std::optional<CollectiveCost> as_measured(const Profile* profile, CollectiveCost base) {
  if (profile == nullptr || base.kind != CollectiveKind::AllReduce) return std::nullopt;
  const TransferTable* table = profile->collective("all_reduce", base.members);
  if (table == nullptr) return std::nullopt;
  base.algorithm = Algorithm::Ring;
  base.source = source_of(*table, base.bytes);
  base.time = base.latency = table->at(base.bytes);
  return base;
}

// Links as written: no software latency, the narrowest link carries every step of the ring, or all that a member sends.
CollectiveCost over_given_links(CollectiveCost base, const RingHops& hops) {
  base.source = CostSource::Given;
  const bool to_all = base.kind == CollectiveKind::AllToAll, at_once = to_all || base.kind == CollectiveKind::SendReceive;
  const int steps = at_once ? 1 : (base.kind == CollectiveKind::AllReduce ? 2 : 1) * (base.members - 1);
  const double wire = ring_bytes(base.kind, base.members, static_cast<double>(base.bytes.base()));
  base.algorithm = to_all ? Algorithm::Peers : Algorithm::Ring;
  base.latency = Duration(steps * hops.latency);
  base.wire_bytes = Bytes(static_cast<std::int64_t>(std::llround(wire)));
  base.time = base.latency + Duration(wire / hops.bandwidth);
  return base;
}

// Groups of a table ran alone, on nodes of the device's kind.
MeasuredWhere measured_where(const Cluster& cluster, const Calibration& calibration, int device) {
  const Cluster& own = cluster.collectives->measured_on ? *cluster.collectives->measured_on : cluster;
  const int kind = std::min(cluster.node_of(device).group, own.node.back().group);
  std::vector<std::vector<int>> nodes;  // devices of the first two
  for (int d = 0; d < own.size() && nodes.size() < 3; ++d)
    if (own.node_of(d).group == kind) {
      if (own.devices[d].index_in_node == 0) nodes.emplace_back();
      nodes.back().push_back(d);
    }
  nodes.resize(std::min<std::size_t>(nodes.size(), 2));
  const DeviceType& type = own.type_of(nodes.front().front());
  const bool same = type.calibration == cluster.type_of(device).calibration;
  const auto c = same ? std::shared_ptr<const Calibration>(std::shared_ptr<const Calibration>(), &calibration)  // not copied
                      : std::make_shared<const Calibration>(calibration_for(type));
  return {c->collective_latency.base(), [&own, c, nodes](int count, int in_node) {
            std::vector<int> members;
            for (std::size_t n = 0; n < nodes.size() && static_cast<int>(n) < count; ++n)
              members.insert(members.end(), nodes[n].begin(),
                             nodes[n].begin() + std::min<std::ptrdiff_t>(in_node, std::ssize(nodes[n])));
            GroupNetwork network{std::numeric_limits<double>::infinity()};
            if (count > 1 && nodes.size() > 1) {
              const double nic = own.route(nodes[0].front(), nodes[1].front()).bandwidth.base();
              network.ring = std::min(own.node_of(members.front()).network.base(), nic * in_node);
              if (own.spine > Bandwidth(0) && fabric_of(own).rails == 0)
                network.ring = std::min(network.ring, own.spine.base() / count);
              network.peers = network.ring;
            }
            NcclGroup group = group_of(own, *c, members, network);
            group.members = count * in_node;
            group.nodes = count;
            group.in_node = in_node;
            return group;
          }};
}

// On links whose rates are known, at the efficiencies of a type of device: NCCL's steps, and once the launch and the wait for the
// last member.
CollectiveCost computed(CollectiveCost base, const Cluster& cluster, const Calibration& c, const std::vector<int>& devices,
                        const GroupNetwork& network) {
  const NcclGroup group = group_of(cluster, c, devices, network);
  const auto bytes = static_cast<double>(base.bytes.base());
  const NcclCollective found = nccl_collective(base.kind, bytes, group);
  const double start = c.collective_latency.base();
  base.algorithm = found.algorithm;
  base.protocol = found.protocol;
  base.latency = Duration(start + found.latency);
  base.wire_bytes = Bytes(static_cast<std::int64_t>(std::llround(found.wire)));
  base.time = Duration(start + found.time);
  if (cluster.collectives == nullptr) return base;
  const auto measured =
      measured_collective(*cluster.collectives, base.kind, bytes, group, start, measured_where(cluster, c, devices.front()));
  if (!measured) return base;
  base.source = measured->source;
  base.time = Duration(measured->time);
  base.latency = std::min(base.latency, base.time);
  return base;
}

}  // namespace

std::string_view name_of(Algorithm algorithm) {
  constexpr std::string_view kNames[] = {"ring", "tree", "nvls", "nvls-tree", "peers", "sharp"};
  return kNames[at(algorithm)];
}

std::string_view name_of(Protocol protocol) {
  constexpr std::string_view kNames[] = {"simple", "LL", "LL128"};
  return kNames[at(protocol)];
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
  base.crosses_nodes = std::any_of(devices.begin(), devices.end(),
                                   [&](int d) { return cluster.devices[d].node != cluster.devices[devices.front()].node; });
  if (base.members <= 1 || kind == CollectiveKind::None) return base;
  if (const auto measured = as_measured(scenario_->profile.get(), base)) return *measured;
  if (cluster.given) return over_given_links(base, ring_hops(cluster, devices));
  // Members of unlike types go at the pace of the slowest.
  std::set<std::int32_t> types;
  for (const int device : devices) types.insert(cluster.devices[device].type);
  CollectiveCost slowest = base;
  for (const std::int32_t type : types)
    if (const CollectiveCost cost = computed(base, cluster, calibration(type), devices, network); cost.time > slowest.time)
      slowest = cost;
  return slowest;
}

}  // namespace panpipe
