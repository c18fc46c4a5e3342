#include "exec/engine/context/sequence_share.hpp"

#include <ATen/ops/cat.h>

#include <vector>

namespace panpipe::exec {

at::Tensor SequenceShare::part(const at::Tensor& whole, std::int64_t dimension) const {
  const std::int64_t length = whole.size(dimension) / (2 * degree);
  std::vector<at::Tensor> own;
  for (const int chunk : chunks_of(rank, degree)) own.push_back(whole.narrow(dimension, length * chunk, length));
  return at::cat(own, dimension);
}

at::Tensor in_order(const at::Tensor& of_ranks, std::int64_t dimension, int degree) {
  const std::int64_t length = of_ranks.size(dimension) / (2 * degree);
  std::vector<at::Tensor> chunks(2 * degree);
  std::int64_t at = 0;
  for (int rank = 0; rank < degree; ++rank)
    for (const int chunk : SequenceShare::chunks_of(rank, degree))
      chunks[chunk] = of_ranks.narrow(dimension, length * at++, length);
  return at::cat(chunks, dimension);
}

at::Tensor by_ranks(const at::Tensor& ordered, std::int64_t dimension, int degree) {
  std::vector<at::Tensor> parts;
  for (int rank = 0; rank < degree; ++rank) parts.push_back(SequenceShare{rank, degree}.part(ordered, dimension));
  return at::cat(parts, dimension);
}

}  // namespace panpipe::exec
