// The names of tensors in a replay of the allocator. Internal to this folder.
#pragma once

#include <cstdint>

namespace panpipe {

// FSDP gathers parameters and reduces gradients on streams of its own, whose memory no other stream takes; FSDP 1 also casts its
// shards on one.
enum class ReplayStream : std::uint8_t { Compute, Gathers, Reductions, Casts };

// Spaces of keys: microbatches of stages from 0 on, and below them what belongs to none.
enum class ReplaySpace : int {
  Weights = -1,
  Gradients = -2,
  Scratch = -3,
  Buckets = -4,
  Whole = -5,  // of FSDP
  NewGradient = -6,
  Sums = -7,
  Reduced = -8,
  Flat = -9,
  Late = -10,
  Outputs = -11,
  States = -12  // and below: one for each moment
};

// Numbers of tensors of a microbatch that no unit has: below 0.
enum OwnTensor : int { kReceived = -1, kReceivedGradient = -2 };

// A space (a microbatch of a stage, or one of those that last) and the number of a tensor in it; either may be negative.
using TensorKey = std::uint64_t;
constexpr TensorKey tensor_key(int space, int tensor) {
  return (static_cast<TensorKey>(static_cast<std::uint32_t>(space)) << 32) | static_cast<std::uint32_t>(tensor);
}
constexpr TensorKey tensor_key(ReplaySpace space, int tensor) { return tensor_key(static_cast<int>(space), tensor); }
constexpr int space_of(TensorKey key) { return static_cast<std::int32_t>(key >> 32); }
constexpr int tensor_of(TensorKey key) { return static_cast<std::int32_t>(key); }

}  // namespace panpipe
