// Matrices of which this rank holds a part: a tensor-parallel shard, or under ZeRO 2 and 3 some elements of it. An optimizer of
// matrices gathers each, makes the whole update as its peers do, and takes its own part of that (Megatron-LM's
// `--muon-tp-mode duplicated`, FSDP2's full_tensor()).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>

#include "exec/engine/training/sharded_parameters.hpp"

namespace panpipe::exec {

// The whole of a part, and the part of a whole; empty where the rank holds all of a matrix.
struct MatrixParts {
  std::function<at::Tensor(const at::Tensor&)> whole, part;
};

class WholeMatrices {
 public:
  // All ranks construct it at the same time, because groups are created. References must outlive the object. `sharded`: nullptr
  // if replicas hold whole parameters. `blockwise`: tensor-parallel ranks step their shards alone.
  WholeMatrices(RankSite& site, bool blockwise, const ShardedParameters* sharded);

  // The object must outlive what it returns. All who share the matrix call these in the same order.
  MatrixParts parts(int root) const;

 private:
  at::Tensor gathered(int root, const at::Tensor& part, const Group& group, const std::vector<std::int64_t>& lengths) const;

  RankSite& site_;
  const ShardedParameters* sharded_;
  std::optional<Group> tensor_;  // nullopt: shards are stepped as they are
};

}  // namespace panpipe::exec
