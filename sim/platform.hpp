// The shared resources of each kind of flow of a plan: the routes of every pipeline group.
#pragma once

#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <vector>

#include "costmodel/cluster/cluster.hpp"
#include "costmodel/lowering/task_graph.hpp"

namespace panpipe::sim {

enum class PathKind : std::uint8_t {
  Between,   // the devices of rank `from` to those of rank `to` in the same pipeline group
  Ring,      // each member of a group of a kind in rank `from` to the next
  Peers,     // each member to all others, as one route: a resource counts one use for each destination
  ToHost,    // each device of rank `from` to its host's memory
  FromHost,  // the reverse
};

// A pipeline group has one device of each rank, all of one replica and one tensor index: routes[group], group = replica x tensor
// degree + tensor index.
struct Path {
  PathKind kind{};
  Among among{};         // Ring, Peers: the kind of group
  int from = 0, to = 0;  // ranks
  std::vector<Route> routes;

  bool in_passes() const { return (kind == PathKind::Ring || kind == PathKind::Peers) && index_of(among) < kAmongPasses; }
};

// A rank's part in the collectives of a flow, inside its passes or as tasks of their own; may be listed again.
struct RankCollective {
  int rank = 0;
  std::int32_t flow = 0;
  bool in_passes = false;
  int path = -1;  // into paths(); -1: there is no other member to send to
};

class Platform {
 public:
  Platform(const TaskGraph& graph, const Cluster& cluster);

  int pipeline_groups() const { return graph_->degrees.devices_of_rank(); }
  // Number of the group of that kind to which a pipeline group belongs.
  int group(Among among, int pipeline_group) const { return graph_->degrees.group(among).group_of(pipeline_group); }
  // Number of the set of pipeline groups that communicate with each other in passes, through any groups.
  int pass_group(int pipeline_group) const {
    const Degrees& degrees = graph_->degrees;
    return pipeline_group / std::lcm(degrees.tensor * degrees.context, degrees.expert * degrees.expert_tensor_group());
  }
  const std::vector<Path>& paths() const { return paths_; }
  const std::vector<RankCollective>& collectives() const { return collectives_; }
  const Cluster& cluster() const { return *cluster_; }
  // Index into paths(), -1 if there is no other member to send to, or no way to the host is known.
  int between(int from, int to) const { return find({PathKind::Between, Among{}, from, to}); }
  int host(PathKind kind, int rank) const { return find({kind, Among{}, rank, rank}); }

 private:
  using Key = std::tuple<PathKind, Among, int, int>;
  int find(const Key& key) const;
  int add(const Key& key, const std::vector<std::int32_t>& ring = {});
  int within(int rank, std::int32_t flow, Among among);
  std::optional<Route> route_of(const Key& key, int position, const std::vector<std::int32_t>& ring) const;
  Route to_peers(int rank, const GroupShape& shape, int position) const;

  const TaskGraph* graph_;
  const Cluster* cluster_;
  std::vector<Path> paths_;
  std::vector<RankCollective> collectives_;
  std::map<Key, int> index_;  // -1: no way is known
};

}  // namespace panpipe::sim
