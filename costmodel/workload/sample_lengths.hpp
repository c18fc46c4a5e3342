// Samples that are packed into sequences, each of which attends to itself alone (a block-diagonal mask): docs/post-training.md.
#pragma once

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

// The work of an attention over sequences of packed samples relative to that over one sample each, at most 1: per token
// E[pairs(L)] / E[L] over pairs(s) / s, where pairs(L) is L^2 times what a causal mask and a window leave of it. Samples longer
// than the sequence are cut. 1 for attention between sequences of different kinds.
double packed_share(const AttentionShape& shape, const SampleLengths& samples);

}  // namespace panpipe
