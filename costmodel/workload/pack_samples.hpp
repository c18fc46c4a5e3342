// Samples packed into the sequences of microbatches (docs/unequal-microbatches.md).
#pragma once

#include <string_view>
#include <vector>

#include "costmodel/workload/sample_lengths.hpp"

namespace panpipe {

// What a sequence takes, up to a factor: its tokens, and the squares of its samples.
struct SequenceWork {
  double per_token = 1, per_square = 0;

  double of(const SequenceShape& shape) const {
    return per_token * shape.tokens() + per_square * static_cast<double>(shape.squares());
  }
};

enum class Packing {
  FirstFit,  // the longest first, each into the first sequence that has room
  Sorted,    // neighbours in the order of length: the dynamic programme of DynaPipe (arXiv 2311.10418) for a given number of
             // sequences
  Balanced   // samples moved and exchanged, from the better of the others, until no sequence can be relieved
};

// At most `tokens` in a sequence. `sequences`: so many, a multiple of `replicas`; or 0: as few as first-fit takes, rounded up to
// such a multiple. Sorted and Balanced make the heaviest sequence light: with a fixed number of them and attention within samples
// the sum of their work is always the same. With several replicas those of each follow one another, and their sums are about
// equal. Empty if the samples do not fit into so many sequences. No length may be above `tokens`.
std::vector<SequenceShape> pack_samples(std::vector<int> lengths, int tokens, Packing packing, const SequenceWork& work,
                                        int sequences, int replicas);

}  // namespace panpipe
