// How a step is divided over devices and time. Costs are asked with it, so that a search may ask for degrees other than the
// scenario's.
#pragma once

#include <algorithm>
#include <compare>

namespace panpipe {

struct Degrees {
  int pipeline = 1, tensor = 1, data = 1;  // ranks along each axis
  int virtual_stages = 1;                  // stages per rank
  int zero = 0;                            // 0..3, over the ranks of a shard group
  bool sequence_parallel = false;
  int micro = 1;         // samples per microbatch
  int microbatches = 1;  // per step of one replica
  int shard = 0;         // data-parallel ranks over which ZeRO divides; 0: all

  // Data-parallel ranks of a shard group, neighbours; what they hold together, every group holds.
  int shard_group() const { return shard > 0 ? std::min(shard, data) : data; }
  auto operator<=>(const Degrees&) const = default;
};

}  // namespace panpipe
