// Attention over packed samples against sums of squares by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "costmodel/workload/operator_cost.hpp"
#include "costmodel/workload/sample_lengths.hpp"

namespace panpipe {
namespace {

AttentionShape whole(std::int64_t tokens, bool causal, std::int64_t window = 0) {
  AttentionShape shape;
  shape.batch = 1, shape.heads = 1, shape.head_size = 128;
  shape.query_length = shape.key_length = tokens;
  shape.causal = causal, shape.window = window;
  return shape;
}

// n equal samples in a sequence: n (s/n)^2 of s^2 pairs, with a causal mask half of each.
TEST(SampleLengths, EqualSamplesCostTheirNumbersPart) {
  for (const double n : {1.0, 2.0, 8.0, 64.0})
    for (const bool causal : {false, true}) EXPECT_DOUBLE_EQ(packed_share(whole(8192, causal), {{8192 / n}, {1}}), 1 / n) << n;
}

// E[L] = 0.7 x 512 + 0.25 x 2048 + 0.05 x 8192 = 1280, E[L^2] = 4,587,520: 3584 of 8192 tokens.
TEST(SampleLengths, LongSamplesWeighBySquares) {
  const SampleLengths samples{{512, 2048, 8192}, {0.7, 0.25, 0.05}};
  EXPECT_DOUBLE_EQ(samples.mean(), 1280);
  EXPECT_DOUBLE_EQ(samples.of_a_token(), 3584);
  EXPECT_DOUBLE_EQ(packed_share(whole(8192, true), samples), 3584.0 / 8192);
}

// Half of the samples have 1024 tokens, half would have 16384 and are cut to 4096: (1024^2 + 4096^2) / (1024 + 4096) = 3481.6 of
// 4096.
TEST(SampleLengths, AreCutToTheSequence) {
  EXPECT_DOUBLE_EQ(packed_share(whole(4096, true), {{1024, 16384}, {0.5, 0.5}}), 3481.6 / 4096);
}

// A window of w tokens leaves w s - w^2 / 2 pairs of a sequence and L^2 / 2 of a sample within the window. Samples of 1024 in
// 8192 tokens with a window of 2048: 1024 / 2 = 512 a token, of 2048 (1 - 2048 / 16384) = 1792.
TEST(SampleLengths, WindowsLeaveLessToSave) {
  EXPECT_DOUBLE_EQ(packed_share(whole(8192, true, 2048), {{1024}, {1}}), 512.0 / 1792);
}

// With others of 64 tokens longer samples cost more, from there on, and none costs nothing.
TEST(SampleLengths, ShortenMonotonically) {
  for (const std::int64_t window : {0, 512, 4096}) {
    double before = 0;
    for (double length = 64; length <= 65536; length *= 2) {
      const double share = packed_share(whole(16384, true, window), {{length, 64}, {0.5, 0.5}});
      EXPECT_GE(share, before) << length << " window " << window;
      EXPECT_GT(share, 0);
      EXPECT_LE(share, 1);
      before = share;
    }
  }
  EXPECT_EQ(packed_share(whole(16384, true), {}), 1);
}

}  // namespace
}  // namespace panpipe
