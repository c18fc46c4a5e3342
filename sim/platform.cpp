#include "sim/platform.hpp"

#include <limits>

#include "costmodel/cluster/fabric.hpp"
#include "costmodel/cluster/host_path.hpp"
#include "sim/task_net.hpp"

namespace panpipe::sim {

Platform::Platform(const TaskGraph& graph, const Cluster& cluster) : graph_(&graph), cluster_(&cluster) {
  for (const TransferLink& link : graph.links) add({PathKind::Between, Among{}, link.from_rank, link.to_rank});
  for (const Task& task : graph.tasks) {
    if (task.program >= 0)
      for (const ProgramStep& step : steps_of(graph, graph.programs[task.program]))
        if (step.collective && step.flow >= 0)
          add_within(task.rank, graph.flows[step.flow].cost.among, graph.flows[step.flow].cost.kind);
    if (task.kind == TaskKind::Offload) add_host(PathKind::ToHost, task.rank);
    if (task.kind == TaskKind::Reload) add_host(PathKind::FromHost, task.rank);
    if (task.kind != TaskKind::Collective || task.flow < 0) continue;
    const auto& ranks = cross_ranks(graph, task.flow);
    const CollectiveFlow& flow = graph.flows[task.flow];
    if (ranks.empty()) add_within(task.rank, flow.among, flow.cost.kind);
    for (std::size_t i = 0; ranks.size() > 1 && i < ranks.size(); ++i)
      add({PathKind::Between, Among{}, ranks[i], ranks[(i + 1) % ranks.size()]}, ranks);
  }
}

int Platform::find(const Key& key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? -1 : found->second;
}

void Platform::add_within(int rank, Among among, CollectiveKind kind) {
  if (graph_->degrees.group(among).members > 1) add(key_within(rank, among, kind));
}

void Platform::add(const Key& key, const std::vector<std::int32_t>& ring) {
  const auto [entry, is_new] = index_.try_emplace(key, static_cast<int>(paths_.size()));
  if (!is_new) return;
  const auto [kind, among, from, to] = key;
  Path path{kind, among, from, to, {}};
  path.routes.reserve(pipeline_groups());
  for (int position = 0; position < pipeline_groups(); ++position) path.routes.push_back(route_of(key, position, ring));
  paths_.push_back(std::move(path));
}

// `ring`: the ranks that a ring between ranks joins; empty for others.
Route Platform::route_of(const Key& key, int position, const std::vector<std::int32_t>& ring) const {
  const auto [kind, among, from, to] = key;
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

// Nothing is added where a device's way to its host is not known: its copies are delays of their own then.
void Platform::add_host(PathKind kind, int rank) {
  const Key key{kind, Among{}, rank, rank};
  if (index_.count(key) != 0) return;
  Path path{kind, Among{}, rank, rank, {}};
  for (int position = 0; position < pipeline_groups(); ++position) {
    const auto route = host_path(*cluster_, graph_->device(rank, 0, position), kind == PathKind::ToHost);
    if (!route) return;
    path.routes.push_back(*route);
  }
  index_[key] = static_cast<int>(paths_.size());
  paths_.push_back(std::move(path));
}

const std::vector<std::int32_t>& cross_ranks(const TaskGraph& graph, std::int32_t flow) {
  static const std::vector<std::int32_t> kNone;
  for (const auto& cross : graph.cross_rank_flows)
    if (cross.flow == flow) return cross.ranks;
  return kNone;
}

}  // namespace panpipe::sim
