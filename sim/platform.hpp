// Which shared resources each kind of flow of a plan uses: the routes of every pipeline group.
#pragma once

#include <cstdint>
#include <map>
#include <numeric>
#include <tuple>
#include <vector>

#include "costmodel/cluster/cluster.hpp"
#include "costmodel/lowering/task_graph.hpp"

namespace panpipe::sim {

enum class PathKind : std::uint8_t {
  Between,   // the devices of rank `from` to those of rank `to` in the same pipeline group
  Ring,      // each member of rank `from`'s groups of a kind to the next
  Peers,     // each member of those to all others, as one route: a resource is used once for each that it leads to
  ToHost,    // each device of rank `from` to its host's memory
  FromHost,  // and back
};

// A pipeline group is the devices of one replica and one tensor index, one of each rank: routes[group], group = replica x tensor
// degree + tensor index.
struct Path {
  PathKind kind{};
  Among among{};         // Ring, Peers: whose groups
  int from = 0, to = 0;  // ranks
  std::vector<Route> routes;

  bool in_passes() const { return (kind == PathKind::Ring || kind == PathKind::Peers) && index_of(among) < kAmongPasses; }
};

class Platform {
 public:
  Platform(const TaskGraph& graph, const Cluster& cluster);

  int pipeline_groups() const { return graph_->data * graph_->tensor; }
  // Of the groups of that kind the one that a pipeline group belongs to.
  int group(Among among, int pipeline_group) const { return graph_->group(among).group_of(pipeline_group); }
  // Of those that communicate with one another in passes, over whatever groups.
  int pass_group(int pipeline_group) const {
    return pipeline_group / std::lcm(graph_->tensor * graph_->context, graph_->expert * graph_->expert_tensor);
  }
  const std::vector<Path>& paths() const { return paths_; }
  const Cluster& cluster() const { return *cluster_; }
  // Index into paths(), -1 when there is nobody to send to (a group of one).
  int between(int from, int to) const { return find({PathKind::Between, Among{}, from, to}); }
  int within(int rank, Among among, CollectiveKind kind) const { return find(key_within(rank, among, kind)); }
  int host(PathKind kind, int rank) const { return find({kind, Among{}, rank, rank}); }

 private:
  using Key = std::tuple<PathKind, Among, int, int>;
  static Key key_within(int rank, Among among, CollectiveKind kind) {
    return {kind == CollectiveKind::AllToAll ? PathKind::Peers : PathKind::Ring, among, rank, rank};
  }
  int find(const Key& key) const;
  void add(const Key& key);
  void add_within(int rank, Among among, CollectiveKind kind);
  Route route_of(const Key& key, int position) const;
  Route to_peers(int rank, const GroupShape& shape, int position) const;
  void add_host(PathKind kind, int rank);

  const TaskGraph* graph_;
  const Cluster* cluster_;
  std::vector<Path> paths_;
  std::map<Key, int> index_;
};

// The ranks that a flow between ranks connects in a ring, empty for a flow inside one rank's data group.
const std::vector<std::int32_t>& cross_ranks(const TaskGraph& graph, std::int32_t flow);

}  // namespace panpipe::sim
