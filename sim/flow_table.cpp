#include "sim/flow_table.hpp"

#include <algorithm>
#include <cmath>

#include "base/index.hpp"

namespace panpipe::sim {
namespace {

// A lowered time is a whole number of picoseconds; a rate taken from it may differ from the route's by that rounding.
constexpr double kRounding = 1 - 1e-6;

double rate_of(Bytes bytes, Ticks transfer) {
  return transfer > Ticks(0) ? static_cast<double>(bytes.base()) / to_duration(transfer).base() : 0;
}

// The tensor-parallel member whose way is the slowest: a link's cost is its.
std::size_t slowest_member(const std::vector<Route>& routes, int tensor, Bytes bytes) {
  std::size_t slowest = 0;
  for (std::size_t t = 1; t < at(tensor); ++t)
    if (routes[t].time_alone(bytes) > routes[slowest].time_alone(bytes)) slowest = t;
  return slowest;
}

}  // namespace

FlowTable::FlowTable(const TaskGraph& graph, const Platform& platform, Folding& folding)
    : graph_(&graph), platform_(&platform), folding_(&folding), classes_(folding.classes), flows_(graph.flows.size()) {
  pass_rates_.assign(platform.paths().size(), 0);
  in_passes_.assign(at(graph.ranks) * flows_, -1);
  lane_.assign(at(graph.ranks) * flows_, -1);
  add_transfers();
  for (const RankCollective& own : platform.collectives())
    add_member((own.in_passes ? in_passes_ : lane_)[entry(own.rank, own.flow)], own.flow, own.path);
  add_host_copies();
}

// `share` of the route's own bandwidth; at most all of it.
FlowSpec FlowTable::flow_over(const Route& route, std::int32_t shared_route, double bytes, double share, Ticks latency,
                              Ticks transfer) {
  FlowSpec spec;
  spec.latency = latency;
  spec.transfer = transfer;
  if (shared_route < 0 || route.table || route.hops.empty() || bytes <= 0 || transfer <= Ticks(0)) return spec;
  spec.route = shared_route;
  spec.bytes = bytes;
  const double rate_cap = share >= kRounding ? kNoRateCap : share * route.bandwidth.base();
  auto& known = folding_->network.ways;
  const auto [entry, is_new] = ways_.try_emplace({shared_route, rate_cap}, static_cast<std::int32_t>(known.size()));
  if (is_new) known.push_back({shared_route, rate_cap});
  spec.way = entry->second;
  return spec;
}

// A link's cost is that of the first pipeline group's slowest member. Others use the same share of their own route's bandwidth,
// and their own latency.
void FlowTable::add_transfers() {
  for (const TransferLink& link : graph_->links) {
    const int path = platform_->between(link.from_rank, link.to_rank);
    const std::vector<Route>& routes = platform_->paths()[path].routes;
    const std::size_t reference = slowest_member(routes, graph_->degrees.tensor, link.cost.bytes);
    const Route& first = routes[reference];
    double share = std::min(1.0, rate_of(link.cost.bytes, link.transfer) / first.bandwidth.base());
    if (!std::isfinite(first.bandwidth.base()) || share >= kRounding) share = 1;
    for (int cls = 0; cls < classes_; ++cls) {
      const Route& route = routes[folding_->group_of[cls]];
      double bytes = share * first.bandwidth.base() * to_duration(link.transfer).base();
      Ticks transfer = link.transfer, latency = link.latency + to_ticks(route.latency - first.latency);
      if (route.table) {
        transfer = std::max(Ticks(0), to_ticks(route.table->at(link.cost.bytes)) - latency);
      } else if (!std::isfinite(first.bandwidth.base())) {
        bytes = static_cast<double>(link.cost.bytes.base());
      }
      if (!route.table && !route.hops.empty() && route.bandwidth != first.bandwidth)
        transfer = to_ticks(Duration(bytes / (share * route.bandwidth.base())));
      if (at(folding_->group_of[cls]) == reference) transfer = link.transfer;
      specs_.push_back(flow_over(route, folding_->route_of(path, cls), bytes, share, latency, transfer));
    }
  }
}

void FlowTable::add_member(std::int32_t& base, std::int32_t flow, int path) {
  if (base >= 0) return;
  base = static_cast<std::int32_t>(specs_.size() / at(classes_));
  const CollectiveFlow& collective = graph_->flows[flow];
  for (int cls = 0; cls < classes_; ++cls) {
    if (path < 0) {
      specs_.push_back({-1, 0, -1, collective.latency, collective.transfer});
      continue;
    }
    const Path& way = platform_->paths()[path];
    const Route& route = way.routes[folding_->group_of[cls]];
    const double own = route.bandwidth.base();
    // In an all-to-all of what goes to one peer: the route counts them.
    const double units = way.kind == PathKind::Peers ? std::max(1, collective.cost.members - 1) : 1;
    double rate = rate_of(collective.cost.wire_bytes, collective.transfer) / units;
    if (rate >= own * kRounding) rate = own;
    const double bytes = rate * to_duration(collective.transfer).base();
    specs_.push_back(flow_over(route, folding_->route_of(path, cls), bytes, rate / own, collective.latency, collective.transfer));
    if (way.in_passes()) pass_rates_[path] = std::max(pass_rates_[path], rate);
  }
}

// Lowered times are those of the first device and its way; a slower way of another device takes longer.
void FlowTable::add_host_copies() {
  for (const Task& task : graph_->tasks) {
    if (task.kind != TaskKind::Offload && task.kind != TaskKind::Reload) continue;
    const bool away = task.kind == TaskKind::Offload;
    const int path = platform_->host(away ? PathKind::ToHost : PathKind::FromHost, task.rank);
    if (path < 0 || task.program < 0) continue;
    if (!host_copies_.try_emplace({task.rank, task.program}, static_cast<std::int32_t>(specs_.size() / at(classes_))).second)
      continue;
    const Ticks alone = graph_->programs[task.program].duration;
    const double rate = rate_of(away ? task.give : task.take, alone);
    for (int cls = 0; cls < classes_; ++cls) {
      const Route& route = platform_->paths()[path].routes[folding_->group_of[cls]];
      const double own = route.bandwidth.base();
      const bool whole = rate >= own * kRounding;  // the way itself is what limits it
      const double bytes = (whole && cls == 0 ? own : rate) * to_duration(alone).base();
      const Ticks transfer = whole && cls > 0 ? to_ticks(Duration(bytes / own)) : alone;
      specs_.push_back(flow_over(route, folding_->route_of(path, cls), bytes, whole ? 1 : rate / own, Ticks(0), transfer));
    }
  }
}

const FlowSpec* FlowTable::host_copy(const Task& task, std::int32_t cls) const {
  const auto found = host_copies_.find({task.rank, task.program});
  return found == host_copies_.end() ? nullptr : &specs_[index(found->second, cls)];
}

}  // namespace panpipe::sim
