// Where a rank of the world stands: ranks are numbered tensor fastest, then data, then pipeline.
#pragma once

#include "costmodel/plan/plan.hpp"

namespace panpipe::exec {

struct MeshPlace {
  int position = 0;  // in the pipeline
  int replica = 0;   // which of the data-parallel ones
  int shard = 0;     // of the tensor-parallel ranks
};

inline MeshPlace place_of(const Plan& plan, int rank) {
  return {rank / (plan.data * plan.tensor), rank / plan.tensor % plan.data, rank % plan.tensor};
}

inline int world_rank(const Plan& plan, const MeshPlace& place) {
  return (place.position * plan.data + place.replica) * plan.tensor + place.shard;
}

}  // namespace panpipe::exec
