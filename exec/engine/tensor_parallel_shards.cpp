#include "exec/engine/tensor_parallel_shards.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <numeric>

namespace panpipe::exec {
namespace {

std::int64_t cut_length(const Tensor& parameter) {
  return parameter.shape[static_cast<std::size_t>(parameter.shard_dimension)] / parameter.fused_matrices;
}

}  // namespace

bool is_sharded(const Tensor& parameter) { return parameter.shard_dimension >= 0; }

const Shape& whole_shape(const Tensor& parameter) { return is_sharded(parameter) ? parameter.full_shape : parameter.shape; }

at::Tensor shard_of(const Tensor& parameter, const at::Tensor& whole, int shard, int degree) {
  if (!is_sharded(parameter)) return whole;
  const std::int64_t dimension = parameter.shard_dimension, length = cut_length(parameter);
  const std::int64_t shards = degree / parameter.shard_replicas, index = shard / parameter.shard_replicas;
  at::Tensor padded = whole;
  if (const std::int64_t missing = length * parameter.fused_matrices * shards - whole.size(dimension); missing > 0) {
    Shape shape = whole.sizes().vec();
    shape[static_cast<std::size_t>(dimension)] = missing;
    padded = at::cat({whole, at::zeros(shape, whole.options())}, dimension);
  }
  std::vector<at::Tensor> matrices;
  for (std::int64_t matrix = 0; matrix < parameter.fused_matrices; ++matrix)
    matrices.push_back(padded.narrow(dimension, (matrix * shards + index) * length, length));
  return at::cat(matrices, dimension).contiguous();
}

at::Tensor whole_of(const Tensor& parameter, const std::vector<at::Tensor>& shards) {
  if (!is_sharded(parameter)) return shards.front();
  const std::int64_t dimension = parameter.shard_dimension, length = cut_length(parameter);
  std::vector<at::Tensor> pieces;
  for (std::int64_t matrix = 0; matrix < parameter.fused_matrices; ++matrix)
    for (const at::Tensor& shard : shards) pieces.push_back(shard.narrow(dimension, matrix * length, length));
  return at::cat(pieces, dimension).narrow(dimension, 0, parameter.full_shape[static_cast<std::size_t>(dimension)]).contiguous();
}

std::vector<int> first_holders(const Tensor& parameter, int degree) {
  std::vector<int> holders = {0};
  if (!is_sharded(parameter)) return holders;
  for (int shard = parameter.shard_replicas; shard < degree; shard += parameter.shard_replicas) holders.push_back(shard);
  return holders;
}

std::vector<int> gradient_peers(const Tensor& parameter, int shard, int degree) {
  int first = shard, count = 1;
  if (is_sharded(parameter)) {
    count = parameter.shard_replicas;
    first = shard / count * count;
  } else if (parameter.gradient_partial) {
    first = 0;
    count = degree;
  }
  std::vector<int> peers(static_cast<std::size_t>(count));
  std::iota(peers.begin(), peers.end(), first);
  return peers;
}

}  // namespace panpipe::exec
