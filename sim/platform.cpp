#include "sim/platform.hpp"

#include <limits>

#include "base/index.hpp"
#include "costmodel/cluster/fabric.hpp"
#include "costmodel/cluster/host_path.hpp"
#include "sim/task_net.hpp"

namespace panpipe::sim {
namespace {

// The ranks that a flow between ranks connects in a ring; empty for a flow inside one rank's data group.
std::vector<std::int32_t> cross_ranks(const TaskGraph& graph, std::int32_t flow) {
  for (const auto& cross : graph.cross_rank_flows)
    if (cross.flow == flow) return cross.ranks;
  return {};
}

}  // namespace

Platform::Platform(const TaskGraph& graph, const Cluster& cluster) : graph_(&graph), cluster_(&cluster) {
  for (const TransferLink& link : graph.links) add({PathKind::Between, Among{}, link.from_rank, link.to_rank});
  std::vector<bool> seen(at(graph.ranks) * graph.programs.size(), false);  // a rank's tasks share few programs
  for (const Task& task : graph.tasks) {
    if (task.kind == TaskKind::Offload) add({PathKind::ToHost, Among{}, task.rank, task.rank});
    if (task.kind == TaskKind::Reload) add({PathKind::FromHost, Among{}, task.rank, task.rank});
    if (task.program >= 0 && !seen[at(task.rank) * graph.programs.size() + at(task.program)]) {
      seen[at(task.rank) * graph.programs.size() + at(task.program)] = true;
      for (const ProgramStep& step : steps_of(graph, graph.programs[task.program]))
        if (step.collective && step.flow >= 0)
          collectives_.push_back({task.rank, step.flow, true, within(task.rank, step.flow, graph.flows[step.flow].cost.among)});
    }
    if (task.kind != TaskKind::Collective || task.flow < 0) continue;
    const std::vector<std::int32_t> ranks = cross_ranks(graph, task.flow);
    int path = ranks.empty() ? within(task.rank, task.flow, graph.flows[task.flow].among) : -1;
    for (std::size_t i = 0; ranks.size() > 1 && i < ranks.size(); ++i) {
      const int next = add({PathKind::Between, Among{}, ranks[i], ranks[(i + 1) % ranks.size()]}, ranks);
      if (ranks[i] == task.rank) path = next;
    }
    collectives_.push_back({task.rank, task.flow, false, path});
  }
}

int Platform::find(const Key& key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? -1 : found->second;
}

int Platform::within(int rank, std::int32_t flow, Among among) {
  if (graph_->degrees.group(among).members <= 1) return -1;
  const bool peers = graph_->flows[flow].cost.kind == CollectiveKind::AllToAll;
  return add({peers ? PathKind::Peers : PathKind::Ring, among, rank, rank});
}

int Platform::add(const Key& key, const std::vector<std::int32_t>& ring) {
  const auto [entry, is_new] = index_.try_emplace(key, static_cast<int>(paths_.size()));
  if (!is_new) return entry->second;
  const auto [kind, among, from, to] = key;
  Path path{kind, among, from, to, {}};
  path.routes.reserve(pipeline_groups());
  for (int position = 0; position < pipeline_groups(); ++position) {
    std::optional<Route> route = route_of(key, position, ring);
    if (!route) return entry->second = -1;
    path.routes.push_back(*std::move(route));
  }
  paths_.push_back(std::move(path));
  return entry->second;
}

// `ring`: the ranks that a ring between ranks joins; empty for others. None where a device's way to its host is not known: its
// copies are delays of their own then.
std::optional<Route> Platform::route_of(const Key& key, int position, const std::vector<std::int32_t>& ring) const {
  const auto [kind, among, from, to] = key;
  if (kind == PathKind::ToHost || kind == PathKind::FromHost)
    return host_path(*cluster_, graph_->device(from, 0, position), kind == PathKind::ToHost);
  const GroupShape shape = graph_->degrees.group(among);
  if (kind == PathKind::Peers) return to_peers(from, shape, position);
  const int sender = graph_->device(from, 0, position);
  const int receiver = graph_->device(to, 0, kind == PathKind::Ring ? shape.next_of(position) : position);
  if (fabric_of(*cluster_).rails == 0) return cluster_->route(sender, receiver);
  std::vector<int> group;
  for (const std::int32_t rank : ring) group.push_back(graph_->device(rank, 0, position));
  if (kind == PathKind::Ring)
    for (int member = 0, p = position; member < shape.members; ++member, p = shape.next_of(p))
      group.push_back(graph_->device(from, 0, p));
  return cluster_->route(sender, ring_neighbour(*cluster_, group, sender, receiver));
}

// One unit of it is what the member sends to one peer.
Route Platform::to_peers(int rank, const GroupShape& shape, int position) const {
  Route all;
  all.bandwidth = Bandwidth(std::numeric_limits<double>::infinity());
  std::map<std::int32_t, std::int32_t> uses;
  for (int peer = shape.next_of(position); peer != position; peer = shape.next_of(peer)) {
    const Route route = cluster_->route(graph_->device(rank, 0, position), graph_->device(rank, 0, peer));
    for (const Hop& hop : route.hops) uses[hop.resource] += hop.uses;
    all.latency = std::max(all.latency, route.latency);
    all.path = std::max(all.path, route.path);
    all.bandwidth = std::min(all.bandwidth, route.bandwidth);
  }
  for (const auto& [resource, count] : uses) {
    all.hops.push_back({resource, count});
    all.bandwidth = std::min(all.bandwidth, cluster_->resources[resource].bandwidth / count);
  }
  return all;
}

}  // namespace panpipe::sim
