// How a parameter is cut over the devices of a pipeline rank, tensor-parallel ranks and those that share out experts: whole to
// shards and back, and who has the same shard. Devices are numbered as GroupShape's positions: replica x tensor degree + tensor
// index; neighbours hold a parameter together, and the next as many hold it once more.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "costmodel/scenario/degrees.hpp"
#include "costmodel/workload/graph.hpp"

namespace panpipe::exec {

// Does every rank hold a part of it only?
bool is_sharded(const Tensor& parameter);
// The whole tensor's shape: what checkpoints and gradient files hold.
const Shape& whole_shape(const Tensor& parameter);

// The groups that a graph was made for; without replicas.
GroupSizes groups_of(const OperatorGraph& graph);
// Neighbours that hold the parameter together: a tensor group; of experts that stand apart, the holders of all of them.
int devices_that_share(const Tensor& parameter, const GroupSizes& groups);
// Of which kind are the groups of those that hold the same part of it.
Among among_replicas(const Tensor& parameter);

// What a device holds of `whole`: its experts, and its rows (or columns) of each block, zeros where a vocabulary was padded.
at::Tensor shard_of(const Tensor& parameter, const at::Tensor& whole, int device, const GroupSizes& groups);
// `shards`: of first_holders(), in that order. Padding is left away.
at::Tensor whole_of(const Tensor& parameter, const std::vector<at::Tensor>& shards);

// The devices that stand for all: one per distinct shard, ascending; {0} for what every device holds whole.
std::vector<int> first_holders(const Tensor& parameter, const GroupSizes& groups);
// Of the neighbours of `device`, those whose gradients of it add up, the device among them: they hold the same and use it on
// different data.
std::vector<int> gradient_peers(const Tensor& parameter, int device, const GroupSizes& groups);

}  // namespace panpipe::exec
