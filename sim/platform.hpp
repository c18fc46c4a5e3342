// Which shared resources each kind of flow of a plan uses: the routes of every pipeline group.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "costmodel/cluster/cluster.hpp"
#include "costmodel/lowering/task_graph.hpp"

namespace panpipe::sim {

enum class PathKind : std::uint8_t {
  Between,     // the devices of rank `from` to those of rank `to` in the same pipeline group
  TensorRing,  // each member of rank `from`'s tensor groups to the next
  DataRing,    // each member of rank `from`'s data groups to the next
  ShardRing,   // each member of rank `from`'s shard groups to the next
  HolderRing,  // each of those of rank `from` that hold the same shard to the next
  ToHost,      // each device of rank `from` to its host's memory
  FromHost,    // and back
};

// A pipeline group is the devices of one data and one tensor index, one of each rank: routes[group], group = data index x tensor
// degree + tensor index.
struct Path {
  PathKind kind{};
  int from = 0, to = 0;  // ranks
  std::vector<Route> routes;
};

class Platform {
 public:
  Platform(const TaskGraph& graph, const Cluster& cluster);

  int pipeline_groups() const { return graph_->data * graph_->tensor; }
  int tensor_group(int group) const { return group / graph_->tensor; }
  // Of the groups of that kind the one that a pipeline group belongs to.
  int data_group(Among among, int group) const {
    const int data = group / graph_->tensor, tensor = group % graph_->tensor;
    const int part = among == Among::Data ? 0 : among == Among::ShardGroup ? data / graph_->shard : data % graph_->shard;
    return part * graph_->tensor + tensor;
  }
  const std::vector<Path>& paths() const { return paths_; }
  const Cluster& cluster() const { return *cluster_; }
  // Index into paths(), -1 when there is nobody to send to (a group of one).
  int path(PathKind kind, int from, int to = 0) const;

 private:
  void add(PathKind kind, int from, int to);
  void add_host(PathKind kind, int rank);

  const TaskGraph* graph_;
  const Cluster* cluster_;
  std::vector<Path> paths_;
  std::map<std::tuple<PathKind, int, int>, int> index_;
};

// The path of a flow's members inside one rank.
PathKind ring_of(Among among);

// The ranks that a flow between ranks connects in a ring, empty for a flow inside one rank's data group.
const std::vector<std::int32_t>& cross_ranks(const TaskGraph& graph, std::int32_t flow);

}  // namespace panpipe::sim
