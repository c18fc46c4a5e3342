#include "exec/engine/tensor_parallel_shards.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <numeric>

namespace panpipe::exec {
namespace {

// The length of each matrix that is fused in a parameter, along the dimension that is cut.
std::vector<std::int64_t> cut_lengths(const Tensor& parameter) {
  if (!parameter.fused_rows.empty()) return parameter.fused_rows;
  const std::int64_t all = parameter.shape[parameter.shard_dimension];
  return std::vector<std::int64_t>(static_cast<std::size_t>(parameter.fused_matrices), all / parameter.fused_matrices);
}

// Ranks that divide a parameter's width, or an expert's.
int width_degree(const Tensor& parameter, const Degrees& degrees) {
  return parameter.experts ? degrees.expert_tensor_group() : degrees.tensor;
}

// The shard of a parameter without experts, or of some experts.
at::Tensor shard_of_width(const Tensor& parameter, const at::Tensor& whole, int shard, int degree) {
  if (parameter.shard_dimension < 0) return whole;
  const std::int64_t dimension = parameter.shard_dimension;
  const std::vector<std::int64_t> lengths = cut_lengths(parameter);
  const std::int64_t shards = degree / parameter.shard_replicas, index = shard / parameter.shard_replicas;
  at::Tensor padded = whole;
  const std::int64_t held = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  if (const std::int64_t missing = held * shards - whole.size(dimension); missing > 0) {
    Shape shape = whole.sizes().vec();
    shape[dimension] = missing;
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

at::Tensor whole_width(const Tensor& parameter, at::TensorList shards) {
  if (parameter.shard_dimension < 0) return shards.front();
  const std::int64_t dimension = parameter.shard_dimension;
  std::vector<at::Tensor> pieces;
  std::int64_t first = 0;  // of the matrix, in a shard
  for (const std::int64_t length : cut_lengths(parameter)) {
    for (const at::Tensor& shard : shards) pieces.push_back(shard.narrow(dimension, first, length));
    first += length;
  }
  return at::cat(pieces, dimension).narrow(dimension, 0, parameter.full_shape[dimension]).contiguous();
}

}  // namespace

bool is_sharded(const Tensor& parameter) { return parameter.shard_dimension >= 0 || parameter.experts; }

const Shape& whole_shape(const Tensor& parameter) { return is_sharded(parameter) ? parameter.full_shape : parameter.shape; }

int devices_that_share(const Tensor& parameter, const Degrees& degrees) {
  return parameter.experts ? degrees.expert * degrees.expert_tensor_group() : degrees.tensor;
}

Among among_replicas(const Tensor& parameter) { return parameter.experts ? Among::ExpertData : Among::Data; }

at::Tensor shard_of(const Tensor& parameter, const at::Tensor& whole, int device, const Degrees& degrees) {
  const int shard = device % devices_that_share(parameter, degrees);
  if (!parameter.experts) return shard_of_width(parameter, whole, shard, degrees.tensor);
  const std::int64_t own = parameter.shape[0];
  const at::Tensor experts = whole.narrow(0, own * (shard / degrees.expert_tensor_group()), own);
  return shard_of_width(parameter, experts, shard % degrees.expert_tensor_group(), degrees.expert_tensor_group()).contiguous();
}

at::Tensor whole_of(const Tensor& parameter, const std::vector<at::Tensor>& pieces) {
  std::vector<at::Tensor> shards, row;
  std::int64_t elements = 0;
  for (const at::Tensor& piece : pieces) {
    row.push_back(piece.reshape({-1}));
    elements += piece.numel();
    if (elements < parameter.elements()) continue;
    shards.push_back((row.size() == 1 ? row.front() : at::cat(row)).view(parameter.shape));
    row.clear();
    elements = 0;
  }
  if (!parameter.experts) return whole_width(parameter, shards);
  const auto parts = static_cast<std::size_t>(parameter.full_shape[0] / parameter.shape[0]), width = shards.size() / parts;
  std::vector<at::Tensor> experts;
  for (std::size_t first = 0; first < shards.size(); first += width)
    experts.push_back(whole_width(parameter, at::TensorList(shards).slice(first, width)));
  return at::cat(experts).contiguous();
}

std::vector<int> first_holders(const Tensor& parameter, const Degrees& degrees) {
  const int degree = width_degree(parameter, degrees);
  const int step = parameter.shard_dimension >= 0 ? parameter.shard_replicas : degree;
  std::vector<int> holders;
  for (int device = 0; device < devices_that_share(parameter, degrees); device += step) holders.push_back(device);
  return holders;
}

std::vector<int> gradient_peers(const Tensor& parameter, int device, const Degrees& degrees) {
  int count = 1;  // neighbours that hold the same
  if (parameter.shard_dimension >= 0)
    count = parameter.shard_replicas;
  else if (parameter.gradient_partial)
    count = width_degree(parameter, degrees);
  std::vector<int> peers(count);
  std::iota(peers.begin(), peers.end(), device / count * count);
  return peers;
}

}  // namespace panpipe::exec
