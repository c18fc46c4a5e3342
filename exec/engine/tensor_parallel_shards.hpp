// How a parameter is cut over the tensor-parallel ranks: whole to shards and back, and who has the same shard.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "costmodel/workload/graph.hpp"

namespace panpipe::exec {

// Does every rank hold a part of it only?
bool is_sharded(const Tensor& parameter);
// The whole tensor's shape: what checkpoints and gradient files hold.
const Shape& whole_shape(const Tensor& parameter);

// What rank `shard` of `degree` holds of `whole`: its rows (or columns) of each block, zeros where a vocabulary was padded.
at::Tensor shard_of(const Tensor& parameter, const at::Tensor& whole, int shard, int degree);
// `shards`: of first_holders(), in that order. Padding is left away.
at::Tensor whole_of(const Tensor& parameter, const std::vector<at::Tensor>& shards);

// The ranks that stand for all: one per distinct shard, ascending; {0} for what every rank holds whole.
std::vector<int> first_holders(const Tensor& parameter, int degree);
// The ranks whose gradients of it add up, `shard` among them: those that hold the same and use it on different data.
std::vector<int> gradient_peers(const Tensor& parameter, int shard, int degree);

}  // namespace panpipe::exec
