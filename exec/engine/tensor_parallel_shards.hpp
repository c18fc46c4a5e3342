// The division of a parameter over the devices of a pipeline rank (tensor-parallel ranks, and ranks that divide experts):
// conversion between whole tensors and shards, and the holders of each shard. Devices are numbered like GroupShape's positions,
// replica x tensor degree + tensor index. Neighbouring devices hold a parameter together; the next group of the same size holds
// it again.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "costmodel/degrees/degrees.hpp"
#include "costmodel/workload/graph.hpp"

namespace panpipe::exec {

// True if every rank holds only a part of it.
bool is_sharded(const Tensor& parameter);
// The shape of the whole tensor, as in checkpoints and gradient files.
const Shape& whole_shape(const Tensor& parameter);

// Number of neighbours that hold the parameter together: a tensor group, or for separate experts all their holders.
int devices_that_share(const Tensor& parameter, const Degrees& degrees);
// The kind of group whose members hold the same part of it.
Among among_replicas(const Tensor& parameter);

// A device's part of `whole`: its experts, and its rows (or columns) of each block, with zeros for a padded vocabulary.
at::Tensor shard_of(const Tensor& parameter, const at::Tensor& whole, int device, const Degrees& degrees);
// `pieces`: the shards of first_holders(), in that order, each whole or in consecutive flat pieces. Padding is removed.
at::Tensor whole_of(const Tensor& parameter, const std::vector<at::Tensor>& pieces);

// One device per distinct shard, ascending; {0} for a parameter that every device holds whole.
std::vector<int> first_holders(const Tensor& parameter, const Degrees& degrees);
// Those among the neighbours of `device`, itself included, whose gradients of the parameter are summed: they hold the same part
// and use it on different data.
std::vector<int> gradient_peers(const Tensor& parameter, int device, const Degrees& degrees);

}  // namespace panpipe::exec
