// Samples assigned to groups of ranks, each group with a context degree of its own (docs/unequal-microbatches.md).
#pragma once

#include <vector>

#include "costmodel/workload/pack_samples.hpp"

namespace panpipe {

// The smallest power of two, at most `most`, at which a rank holds no more tokens than one of `most` ranks that share the
// longest sequence.
int context_degree(int tokens, int longest, int most);

// What each rank of a pool has a share of in each slot: by rank and slot, slots fastest. An empty shape is an idle rank. The
// ranks of a group follow one another, from a multiple of their number on.
struct ContextSlots {
  int slots = 0;
  std::vector<SequenceShape> of;
};

// The longest sample is shared by `most` ranks, shorter ones by context_degree; samples of degree 1 are packed, up to the tokens
// of such a rank. Those of a higher degree are padded to a multiple of twice their degree, as attention over a divided causal
// sequence needs. Groups whose ranks have about equal work share a slot. `ranks` and `most` are powers of two. `slots`: so many,
// or 0: as few as there can be. `slots` of the answer is 0 if the samples do not go into so many.
ContextSlots assign_contexts(std::vector<int> lengths, int most, int ranks, int slots, const SequenceWork& work);

}  // namespace panpipe
