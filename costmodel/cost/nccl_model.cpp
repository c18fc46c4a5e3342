#include "costmodel/cost/nccl_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace panpipe {
namespace {

// NVIDIA/nccl, src/graph/tuning.cc (2.28): microseconds by protocol, in the order Simple, LL, LL128.
using PerProtocol = std::array<double, 3>;
constexpr PerProtocol kBaseRing = {8.4, 6.6, 14.0}, kBaseTree = {8.4, 6.8, 14.0};
// A step over NVLink, over PCIe, over the network.
constexpr PerProtocol kRingNvlink = {3.4, 0.6, 1.9}, kRingPcie = {5.7, 1.0, 2.5}, kRingNetwork = {14.0, 2.7, 4.0};
constexpr PerProtocol kTreeNvlink = {4.0, 0.6, 1.25}, kTreePcie = {4.0, 1.0, 1.9}, kTreeNetwork = {14.0, 5.0, 8.5};
constexpr double kNvls = 25, kNvlsTreeNetwork = 20.9;
// Over switches of the network that sum: up and down their tree (CollNet in the same table; recalled).
constexpr double kSharpNetwork = 31;

// The network latency contained in those figures: kTreeNetwork's for LL. A cluster's excess over it is added to each hop.
constexpr double kNetworkInside = 5e-6;

// Simple posts three messages to the host for each step of a ring between nodes; the others one.
constexpr PerProtocol kPosts = {3, 1, 1};

// An all-reduce by rings over several nodes waits longer than its steps.
constexpr double kRingPlateau = 1.4;

// LL: half the ring's rate, at most these shares of it in a node: 87.7 of 240 GB/s (Ampere), 141 of 371 (Hopper); between
// nodes at most 19 to 22.5 GB/s, with Intel's processors 20.4 to 39.
constexpr double kLlOfRing = 0.5, kLlInNode = 0.37, kLlBetween = 20e9, kLlOfTree = 1 / 3.8;
// Sends and receives in one piece of a kernel's work (NCCL_MAX_DEV_WORK_P2P_PER_BATCH in NCCL's device.h).
constexpr double kPeersAtOnce = 8;
constexpr double kLl128OfRing = 0.92, kLl128OfTree = 120.0 / 128, kTreeOfRing = 0.92;

// A tree's share of its rate by size, powers of two from 64 B on.
constexpr std::array<std::array<double, 24>, 3> kTreeBySize = {{
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9},
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
}};

constexpr std::size_t protocol_index(Protocol protocol) { return static_cast<std::size_t>(protocol); }

// Between the powers of two, where NCCL steps: time must grow with size.
double tree_by_size(Protocol protocol, double bytes) {
  const auto& shares = kTreeBySize[protocol_index(protocol)];
  const double place = std::clamp(std::log2(std::max(1.0, bytes / 64)), 0.0, static_cast<double>(shares.size()));
  const auto low = static_cast<std::size_t>(place);
  if (low >= shares.size()) return 1;
  const double high = low + 1 < shares.size() ? shares[low + 1] : 1;
  return shares[low] + (high - shares[low]) * (place - static_cast<double>(low));
}

double between_latency(const NcclGroup& g, double base, Protocol protocol) {
  const double beyond = std::max(0.0, g.hop - kNetworkInside);
  return base * 1e-6 + beyond * (protocol == Protocol::Simple ? 2 : 1);  // Simple flushes
}

NcclCollective by_ring(CollectiveKind kind, double bytes, const NcclGroup& g, Protocol protocol) {
  const bool all_reduce = kind == CollectiveKind::AllReduce, one_step = kind == CollectiveKind::SendReceive;
  const int rounds = all_reduce ? 2 : 1;
  const int steps = one_step ? 1 : rounds * (g.members - 1);
  const int between = g.nodes == 1 ? 0 : one_step ? 1 : rounds * (g.nodes - 1);
  double inside = (g.nvlink ? kRingNvlink : kRingPcie)[protocol_index(protocol)] * 1e-6;
  if (g.nodes > 1) inside = std::max(inside, g.post * kPosts[protocol_index(protocol)]);
  // With one member a node nothing hides the network.
  const double network = between_latency(g, (g.in_node > 1 ? kRingNetwork : kTreeNetwork)[protocol_index(protocol)], protocol);
  NcclCollective result{Algorithm::Ring, protocol, kBaseRing[protocol_index(protocol)] * 1e-6, ring_bytes(kind, g.members, bytes),
                        0};
  result.latency += (steps - between) * inside + between * network;
  if (protocol == Protocol::Simple && all_reduce && g.nodes > 1) result.latency *= kRingPlateau;
  const double network_rate = one_step ? g.member : g.network;
  double rate = g.nodes == 1 ? g.fabric : g.in_node > 1 ? std::min(g.fabric, network_rate) : network_rate;
  if (protocol == Protocol::LL) rate = std::min(rate * kLlOfRing, g.nodes == 1 ? rate * kLlInNode : kLlBetween);
  if (protocol == Protocol::LL128) rate *= kLl128OfRing;
  result.time = result.latency + result.wire / rate;
  return result;
}

// Bytes out of a node per byte of the tensor: two trees of half the tensor each, up and down. With two nodes each is the other's
// only neighbour; with more, a node with two children sends twice as much.
double tree_out(const NcclGroup& g) { return g.nodes == 2 ? 1 : 2; }

// A chain in each node, two binary trees over the nodes. Chain and tree are one kernel's work, one after the other: all-reduce of
// 1 GiB over two nodes of 8 A100 runs at 57.2 GB/s (p4d.24xlarge, 50 GB/s a node; NVIDIA/nccl issue 527), at 86 and 91 with four
// HDR NICs a node (NVIDIA/nccl-tests issues 175, 100).
NcclCollective by_trees(double bytes, const NcclGroup& g, Protocol protocol) {
  const double inside = (g.nvlink ? kTreeNvlink : kTreePcie)[protocol_index(protocol)] * 1e-6;
  const double network = between_latency(g, kTreeNetwork[protocol_index(protocol)], protocol);
  NcclCollective result{Algorithm::Tree, protocol, kBaseTree[protocol_index(protocol)] * 1e-6, 2 * bytes, 0};
  result.latency += 2 * ((g.in_node - 1) * inside + std::ceil(std::log2(g.nodes)) * network);
  double share = kTreeOfRing * tree_by_size(protocol, bytes);
  if (protocol == Protocol::LL) share *= kLlOfTree;
  if (protocol == Protocol::LL128) share *= kLl128OfTree;
  double seconds = tree_out(g) * bytes / (g.network * share);
  if (g.in_node > 1) seconds += 2 * bytes / (g.fabric * share);
  if (protocol == Protocol::LL) seconds = std::max(seconds, 2 * bytes / kLlBetween);
  result.time = result.latency + seconds;
  return result;
}

// Grouped sends and receives with all peers at once: over the fabric within a node, and over the group's link out of the node to
// others, in parallel. Peers wait for each other in rounds; a round has as many peers as fit one piece of a kernel's work.
NcclCollective by_peers(CollectiveKind kind, double bytes, const NcclGroup& g, Protocol protocol) {
  const double inside = (g.nvlink ? kRingNvlink : kRingPcie)[protocol_index(protocol)] * 1e-6;
  const double network = between_latency(g, kRingNetwork[protocol_index(protocol)], protocol);
  NcclCollective result{Algorithm::Peers, protocol, kBaseRing[protocol_index(protocol)] * 1e-6,
                        ring_bytes(kind, g.members, bytes), 0};
  const double each = bytes / g.members, others = g.in_node - 1, away = g.members - g.in_node;
  const auto rounds = [&](double peers) { return g.at_once ? std::min(peers, 1.0) : std::ceil(peers / kPeersAtOnce); };
  result.latency += rounds(others) * inside + rounds(away) * network;
  const double share = protocol == Protocol::LL ? kLlOfRing : 1;
  // A copy that reaches a node once is distributed inside it.
  double seconds = others * (g.copies ? bytes / g.in_node : each) / (g.fabric * share);
  const double out = g.peers > 0 ? g.peers : g.network;
  if (g.nodes > 1) seconds = std::max(seconds, g.in_node * away * each * g.crossing / (out * share));
  result.time = result.latency + seconds;
  return result;
}

// Reduced in the switch of each node; over nodes by two trees of the nodes, of which the switches' work is a step.
NcclCollective by_switches(double bytes, const NcclGroup& g) {
  NcclCollective result{g.nodes == 1 ? Algorithm::Nvls : Algorithm::NvlsTree, Protocol::Simple, kNvls * 1e-6, bytes, 0};
  double seconds = bytes / g.reduced;
  if (g.nodes > 1) {
    result.latency += 2 * std::ceil(std::log2(g.nodes)) * between_latency(g, kNvlsTreeNetwork, Protocol::Simple);
    seconds = std::max(seconds, tree_out(g) * bytes / g.network);
  }
  result.time = result.latency + seconds;
  return result;
}

// Reduced in each node (by its switch, or over a ring's half), then in the network's switches: a node sends and receives every
// byte once. Both run at the same time, in pieces.
NcclCollective by_network(double bytes, const NcclGroup& g) {
  const bool in_switch = g.multicast && g.in_node > 2;
  NcclCollective result{in_switch ? Algorithm::Nvls : Algorithm::Tree, Protocol::Simple,
                        (in_switch ? kNvls : kBaseTree[0]) * 1e-6, bytes, 0};
  if (!in_switch) result.latency += 2 * (g.in_node - 1) * (g.nvlink ? kRingNvlink : kRingPcie)[0] * 1e-6;
  result.latency += between_latency(g, kSharpNetwork, Protocol::Simple);
  const double inside = in_switch       ? bytes / g.reduced
                        : g.in_node > 1 ? ring_bytes(CollectiveKind::AllReduce, g.in_node, bytes) / g.fabric
                                        : 0;
  result.time = result.latency + std::max(inside, bytes / g.network);
  return result;
}

}  // namespace

double ring_bytes(CollectiveKind kind, int members, double bytes) {
  if (kind == CollectiveKind::SendReceive) return bytes;
  const double share = static_cast<double>(members - 1) / members;
  return (kind == CollectiveKind::AllReduce ? 2.0 : 1.0) * share * bytes;
}

NcclCollective nccl_collective(CollectiveKind kind, double bytes, const NcclGroup& group) {
  const bool to_all = kind == CollectiveKind::AllToAll;
  const auto one_way = [&](Protocol protocol) {
    return to_all ? by_peers(kind, bytes, group, protocol) : by_ring(kind, bytes, group, protocol);
  };
  NcclCollective best = one_way(Protocol::Simple);
  const auto consider = [&](const NcclCollective& other) {
    if (other.time < best.time) best = other;
  };
  const bool all_reduce = kind == CollectiveKind::AllReduce;
  for (const Protocol protocol : {Protocol::Simple, Protocol::LL, Protocol::LL128}) {
    if (protocol == Protocol::LL128 && (!group.nvlink || to_all)) continue;  // its flags need stores that arrive whole
    if (protocol != Protocol::Simple) consider(one_way(protocol));
    if (all_reduce && group.nodes > 1) consider(by_trees(bytes, group, protocol));
  }
  if (all_reduce && group.sharp && group.nodes > 1) consider(by_network(bytes, group));
  // A pair has nothing to gain from a switch that reduces.
  if (all_reduce && group.multicast && group.in_node > 2) consider(by_switches(bytes, group));
  return best;
}

}  // namespace panpipe
