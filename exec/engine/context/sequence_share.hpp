// Which tokens of a sequence a context-parallel rank has: of 2 x degree chunks rank i has chunk i and chunk 2 x degree - 1 - i,
// so that under a causal mask all ranks do the same (zig-zag, as costmodel/workload/context_parallel.cpp prices it).
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace panpipe::exec {

struct SequenceShare {
  int rank = 0, degree = 1;

  // The rank's chunks, by their place in the sequence.
  static std::array<int, 2> chunks_of(int rank, int degree) { return {rank, 2 * degree - 1 - rank}; }
  // What the rank has of a tensor whose dimension `dimension` is the sequence.
  at::Tensor part(const at::Tensor& whole, std::int64_t dimension) const;
};

// From the ranks' parts side by side to the order of the sequence, and back.
at::Tensor in_order(const at::Tensor& of_ranks, std::int64_t dimension, int degree);
at::Tensor by_ranks(const at::Tensor& ordered, std::int64_t dimension, int degree);

}  // namespace panpipe::exec
