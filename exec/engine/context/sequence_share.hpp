// The tokens of a context-parallel rank. The sequence has 2 x degree chunks, and rank i holds chunks i and 2 x degree - 1 - i, so
// that all ranks do the same work under a causal mask (zig-zag, as priced in costmodel/workload/context_parallel.cpp).
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace panpipe::exec {

struct SequenceShare {
  int rank = 0, degree = 1;

  // The rank's chunks, by position in the sequence.
  static std::array<int, 2> chunks_of(int rank, int degree) { return {rank, 2 * degree - 1 - rank}; }
  // The rank's part of a tensor whose dimension `dimension` is the sequence.
  at::Tensor part(const at::Tensor& whole, std::int64_t dimension) const;
};

// Convert between the concatenation of the ranks' parts and the order of the sequence.
at::Tensor in_order(const at::Tensor& of_ranks, std::int64_t dimension, int degree);
at::Tensor by_ranks(const at::Tensor& ordered, std::int64_t dimension, int degree);

}  // namespace panpipe::exec
