#include "exec/engine/tensor_parallel_shards.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <numeric>

namespace panpipe::exec {
namespace {

// What a rank holds of each of the matrices that are fused in a parameter, along the dimension that is cut.
std::vector<std::int64_t> cut_lengths(const Tensor& parameter) {
  if (!parameter.fused_rows.empty()) return parameter.fused_rows;
  const std::int64_t all = parameter.shape[static_cast<std::size_t>(parameter.shard_dimension)];
  return std::vector<std::int64_t>(static_cast<std::size_t>(parameter.fused_matrices), all / parameter.fused_matrices);
}

}  // namespace

bool is_sharded(const Tensor& parameter) { return parameter.shard_dimension >= 0; }

const Shape& whole_shape(const Tensor& parameter) { return is_sharded(parameter) ? parameter.full_shape : parameter.shape; }

at::Tensor shard_of(const Tensor& parameter, const at::Tensor& whole, int shard, int degree) {
  if (!is_sharded(parameter)) return whole;
  const std::int64_t dimension = parameter.shard_dimension;
  const std::vector<std::int64_t> lengths = cut_lengths(parameter);
  const std::int64_t shards = degree / parameter.shard_replicas, index = shard / parameter.shard_replicas;
  at::Tensor padded = whole;
  const std::int64_t held = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  if (const std::int64_t missing = held * shards - whole.size(dimension); missing > 0) {
    Shape shape = whole.sizes().vec();
    shape[static_cast<std::size_t>(dimension)] = missing;
    padded = at::cat({whole, at::zeros(shape, whole.options())}, dimension);
  }
  std::vector<at::Tensor> matrices;
  std::int64_t first = 0;  // of the matrix, in the whole
  for (const std::int64_t length : lengths) {
    matrices.push_back(padded.narrow(dimension, first + index * length, length));
    first += length * shards;
  }
  return at::cat(matrices, dimension).contiguous();
}

at::Tensor whole_of(const Tensor& parameter, const std::vector<at::Tensor>& shards) {
  if (!is_sharded(parameter)) return shards.front();
  const std::int64_t dimension = parameter.shard_dimension;
  std::vector<at::Tensor> pieces;
  std::int64_t first = 0;  // of the matrix, in a shard
  for (const std::int64_t length : cut_lengths(parameter)) {
    for (const at::Tensor& shard : shards) pieces.push_back(shard.narrow(dimension, first, length));
    first += length;
  }
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
