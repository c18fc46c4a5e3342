#include "sim/platform.hpp"

#include "costmodel/cluster/host_path.hpp"

namespace panpipe::sim {

Platform::Platform(const TaskGraph& graph, const Cluster& cluster) : graph_(&graph), cluster_(&cluster) {
  for (const TransferLink& link : graph.links) add(PathKind::Between, link.from_rank, link.to_rank);
  for (const Task& task : graph.tasks) {
    if (task.program >= 0 && graph.tensor > 1) {
      const Program& program = graph.programs[static_cast<std::size_t>(task.program)];
      for (std::int32_t s = 0; s < program.steps; ++s)
        if (graph.steps[static_cast<std::size_t>(program.first_step + s)].collective) {
          add(PathKind::TensorRing, task.rank, task.rank);
          break;
        }
    }
    if (task.kind == TaskKind::Offload) add_host(PathKind::ToHost, task.rank);
    if (task.kind == TaskKind::Reload) add_host(PathKind::FromHost, task.rank);
    if (task.kind != TaskKind::Collective || task.flow < 0) continue;
    const auto& ranks = cross_ranks(graph, task.flow);
    if (ranks.empty() && graph.data > 1)
      add(ring_of(graph.flows[static_cast<std::size_t>(task.flow)].among), task.rank, task.rank);
    for (std::size_t i = 0; ranks.size() > 1 && i < ranks.size(); ++i)
      add(PathKind::Between, ranks[i], ranks[(i + 1) % ranks.size()]);
  }
}

PathKind ring_of(Among among) {
  if (among == Among::Data) return PathKind::DataRing;
  return among == Among::ShardGroup ? PathKind::ShardRing : PathKind::HolderRing;
}

void Platform::add(PathKind kind, int from, int to) {
  const auto [entry, is_new] = index_.try_emplace({kind, from, to}, static_cast<int>(paths_.size()));
  if (!is_new) return;
  Path path{kind, from, to, {}};
  path.routes.reserve(static_cast<std::size_t>(pipeline_groups()));
  const int data = graph_->data, shard = graph_->shard;
  const auto next_data = [&](int d) {
    if (kind == PathKind::DataRing) return (d + 1) % data;
    if (kind == PathKind::ShardRing) return d / shard * shard + (d + 1) % shard;
    return kind == PathKind::HolderRing ? (d + shard) % data : d;
  };
  for (int d = 0; d < graph_->data; ++d)
    for (int t = 0; t < graph_->tensor; ++t) {
      const int next_d = next_data(d);
      const int next_t = kind == PathKind::TensorRing ? (t + 1) % graph_->tensor : t;
      path.routes.push_back(cluster_->route(graph_->device(from, d, t), graph_->device(to, next_d, next_t)));
    }
  paths_.push_back(std::move(path));
}

// Nothing is added where a device's way to its host is not known: its copies are delays of their own then.
void Platform::add_host(PathKind kind, int rank) {
  if (index_.count({kind, rank, rank}) != 0) return;
  Path path{kind, rank, rank, {}};
  for (int d = 0; d < graph_->data; ++d)
    for (int t = 0; t < graph_->tensor; ++t) {
      const auto route = host_path(*cluster_, graph_->device(rank, d, t), kind == PathKind::ToHost);
      if (!route) return;
      path.routes.push_back(*route);
    }
  index_[{kind, rank, rank}] = static_cast<int>(paths_.size());
  paths_.push_back(std::move(path));
}

int Platform::path(PathKind kind, int from, int to) const {
  const auto found = index_.find({kind, from, kind == PathKind::Between ? to : from});
  return found == index_.end() ? -1 : found->second;
}

const std::vector<std::int32_t>& cross_ranks(const TaskGraph& graph, std::int32_t flow) {
  static const std::vector<std::int32_t> kNone;
  for (const auto& cross : graph.cross_rank_flows)
    if (cross.flow == flow) return cross.ranks;
  return kNone;
}

}  // namespace panpipe::sim
