// A rank's place in the world, with ranks numbered tensor fastest, then context, data, pipeline; and its groups for collectives,
// as defined by Degrees::group (costmodel/degrees/degrees.hpp).
#pragma once

#include <vector>

#include "costmodel/plan/plan.hpp"

namespace panpipe::exec {

struct MeshPlace {
  int position = 0;  // in the pipeline
  int replica = 0;   // among the ranks with the same weights: data index x context degree + context index
  int shard = 0;     // among the tensor-parallel ranks
};

inline MeshPlace place_of(const Plan& plan, int rank) {
  return {rank / plan.devices_of_rank(), rank / plan.tensor % plan.replicas(), rank % plan.tensor};
}

inline int world_rank(const Plan& plan, const MeshPlace& place) {
  return (place.position * plan.replicas() + place.replica) * plan.tensor + place.shard;
}

// Where a stage runs, of the replica and the shard of `place`.
inline int rank_of_stage(const Plan& plan, int stage, const MeshPlace& place) {
  return world_rank(plan, {plan.schedule.stage_to_rank[static_cast<std::size_t>(stage)], place.replica, place.shard});
}

// Ascending.
inline std::vector<int> stages_of(const Plan& plan, int position) {
  std::vector<int> stages;
  for (int s = 0; s < plan.schedule.stages; ++s)
    if (plan.schedule.stage_to_rank[static_cast<std::size_t>(s)] == position) stages.push_back(s);
  return stages;
}

// The part of the samples that a replica trains on; equal for replicas that share a sequence.
inline int data_index(const Plan& plan, int replica) { return replica / plan.context; }

// Index among the devices of its position: replica x tensor degree + tensor index.
inline int device_of_position(const Plan& plan, int rank) { return rank % plan.devices_of_rank(); }

// The ranks of `rank`'s group, ascending, all at one position of the pipeline. member_of() is its index among them.
inline std::vector<int> group_of(const Plan& plan, Among among, int rank) {
  const GroupShape shape = plan.group(among);
  const int first_of_position = rank - rank % plan.devices_of_rank();
  std::vector<int> ranks;
  for (int member = 0; member < shape.members; ++member)
    ranks.push_back(first_of_position + shape.first_of(rank % plan.devices_of_rank()) + member * shape.stride);
  return ranks;
}
inline int member_of(const Plan& plan, Among among, int rank) {
  const GroupShape shape = plan.group(among);
  const int here = rank % plan.devices_of_rank();
  return (here - shape.first_of(here)) / shape.stride;
}

}  // namespace panpipe::exec
