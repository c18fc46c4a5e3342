#include "planner/auto/links.hpp"

#include <algorithm>
#include <set>
#include <tuple>

namespace panpipe::planner {

int RouteClasses::class_of(int from, int to) {
  if (from == to) return -1;
  Route route = cluster_.route(from, to);
  const int type = cluster_.devices[from].type;
  const auto measured = [&](int a, int b) { return profile_ != nullptr ? profile_->transfer(a, b) : nullptr; };
  for (std::size_t c = 0; c < routes_.size(); ++c) {
    const Route& known = routes_[c];
    if (measured(from, to) != measured(examples_[c].first, examples_[c].second)) continue;
    if (known.path == route.path && known.latency == route.latency && known.bandwidth == route.bandwidth &&
        known.table == route.table && cluster_.devices[examples_[c].first].type == type)
      return static_cast<int>(c);
  }
  routes_.push_back(std::move(route));
  examples_.emplace_back(from, to);
  return classes() - 1;
}

const std::vector<RouteClasses::Hop>& RouteClasses::chain(std::int64_t stride, int ranks) {
  const auto [found, is_new] = chains_.try_emplace({stride, ranks});
  if (!is_new) return found->second;
  std::vector<Hop>& hops = found->second;
  const auto hop = [&](int from, int to) {
    const int a = positions_.device(from * stride), b = positions_.device(to * stride);
    return Hop{class_of(a, b), class_of(b, a)};
  };
  // A longer chain of the same stride begins with the same hops.
  const auto longer = chains_.upper_bound({stride, ranks});
  if (longer != chains_.end() && longer->first.first == stride)
    hops.assign(longer->second.begin(), longer->second.begin() + ranks - 1);
  else
    for (int r = 0; r + 1 < ranks; ++r) hops.push_back(hop(r, r + 1));
  hops.push_back(hop(ranks - 1, 0));
  return hops;
}

void HandOvers::use(const Occupancy& occupancy) {
  occupancy_ = &occupancy;
  network_ = occupancy.widest_hand_over();
}

double HandOvers::time(int route_class, std::int64_t bytes) {
  if (route_class < 0 || bytes <= 0) return 0;
  for (const Known& known : known_)
    if (known.route_class == route_class && known.bytes == bytes && known.network == network_) return known.time;
  const auto [from, to] = routes_.example(route_class);
  HandOver hand_over = occupancy_->hand_over(from, to);
  hand_over.network = network_;
  known_.push_back({route_class, bytes, network_, model_.transfer(hand_over, Bytes(bytes), degrees_).time.base()});
  return known_.back().time;
}

const std::array<double, Reductions::kPoints>& Reductions::sizes() {
  constexpr double kMi = 1 << 20;
  static const std::array<double, kPoints> sizes = {1, kMi, 16 * kMi, 128 * kMi, 1024 * kMi, 8192 * kMi, 131072 * kMi};
  return sizes;
}

Reductions::Reductions(const CostModel& model, const Occupancy& occupancy, const std::vector<std::vector<int>>& groups) {
  bool first = true;
  const Cluster& cluster = model.scenario().cluster;
  measured_ = cluster.collectives != nullptr;
  trees_ = cluster.nodes > 1;
  for (const std::vector<int>& group : groups) {
    if (group.size() < 2) return;
    const GroupNetwork network = occupancy.network_of(group);
    for (std::size_t i = 0; i < kPoints; ++i) {
      const Bytes size(static_cast<std::int64_t>(sizes()[i]));
      const double both = model.collective(CollectiveKind::AllReduce, size, group, network).time.base();
      all_reduce_[i] = first ? both : std::min(all_reduce_[i], both);
      double one = model.collective(CollectiveKind::ReduceScatter, size, group, network).time.base();
      if (measured_) one = std::min(one, model.collective(CollectiveKind::AllGather, size, group, network).time.base());
      scatter_[i] = first ? one : std::min(scatter_[i], one);
    }
    first = false;
  }
}

double Reductions::time(std::span<const Exchanged> all) const {
  double sum = 0;
  for (const Exchanged& one : all) {
    if (one.among != Among::Data) continue;
    const auto each = [&](Bytes size) {
      const auto bytes = static_cast<double>(size.base());
      return one.kind == CollectiveKind::AllReduce ? all_reduce(bytes) : scatter(bytes);
    };
    if (one.pieces.whole > 0) sum += static_cast<double>(one.pieces.whole) * each(one.size);
    sum += each(one.pieces.rest);
  }
  return sum;
}

double Reductions::between(const std::array<double, kPoints>& times, double bytes) const {
  if (bytes <= 0) return 0;
  const auto& known = sizes();
  std::size_t i = 1;
  while (i + 1 < kPoints && known[i] < bytes) ++i;
  if (measured_) return bytes < known[i] ? times[i - 1] : times[i];
  return times[i - 1] + (times[i] - times[i - 1]) * (bytes - known[i - 1]) / (known[i] - known[i - 1]);
}

std::vector<std::vector<int>> data_groups(int data, std::int64_t stride, std::int64_t step, std::int64_t ranks,
                                          const Positions& positions, const Cluster& cluster, const Occupancy& occupancy) {
  std::vector<std::vector<int>> groups;
  std::set<std::tuple<int, int, double>> seen;  // nodes, members in the fullest, the network's share
  constexpr std::int64_t kMost = 64;
  for (std::int64_t rank = 0; rank < std::min(ranks, kMost); ++rank) {
    std::vector<int> group;
    std::map<int, int> in_node;
    for (int replica = 0; replica < data; ++replica) {
      group.push_back(positions.device(rank * step + replica * stride));
      ++in_node[cluster.devices[group.back()].node];
    }
    int fullest = 0;
    for (const auto& [node, count] : in_node) fullest = std::max(fullest, count);
    // Behind switches nothing else about a group matters.
    const GroupNetwork network = occupancy.network_of(group);
    if (cluster.switched && !seen.insert({static_cast<int>(in_node.size()), fullest, network.ring}).second) continue;
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace panpipe::planner
