// Lengths of samples. Packed into sequences, each attends to itself alone (a block-diagonal mask): docs/post-training.md.
// Microbatches of unequal length: docs/unequal-microbatches.md.
#pragma once

#include <cstdint>
#include <vector>

namespace panpipe {

struct AttentionShape;

// A distribution of lengths in tokens, with the share of samples of each. Empty: a sequence is one sample.
struct SampleLengths {
  std::vector<double> lengths, shares;

  bool any() const { return !lengths.empty(); }
  double mean() const;
  // Mean length of the sample that a token belongs to: E[L^2] / E[L].
  double of_a_token() const;
};

// A sequence of a microbatch: the lengths of the samples in it, in tokens. Each of the microbatch's `micro` sequences is alike.
struct SequenceShape {
  std::vector<int> samples;

  int tokens() const;
  std::int64_t squares() const;  // sum of the samples' squares: what attention costs
  SampleLengths packed() const;  // of more than one sample; else none
  bool operator==(const SequenceShape&) const = default;
};

// Microbatches whose sequences are of unequal length. Empty: all are alike.
struct MicrobatchLengths {
  std::vector<SequenceShape> shapes;  // distinct; the longest first, then those with the most squares
  std::vector<int> of;                // per microbatch: its shape; of one replica, or of every data replica, one after another

  bool any() const { return !shapes.empty(); }
};
// In the order given.
MicrobatchLengths lengths_of(const std::vector<SequenceShape>& microbatches);

// The work of an attention over sequences of packed samples relative to that over one sample each, at most 1: per token
// E[pairs(L)] / E[L] over pairs(s) / s, where pairs(L) is L^2 times what a causal mask and a window leave of it. Samples longer
// than the sequence are cut. 1 for attention between sequences of different kinds.
double packed_share(const AttentionShape& shape, const SampleLengths& samples);

}  // namespace panpipe
