// Fused attention against the times that NVIDIA publishes for cuDNN 9.22 on a GB200 and 9.19 on an H200 (NVIDIA/cudnn-frontend at
// 3929da2, benchmark/sdpa_benchmark_training/results). Only the rates of 4096 tokens and heads of 128 are taken from there.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "costmodel/cost/compute.hpp"

namespace panpipe {
namespace {

struct Figure {
  double forward_rate, backward_rate;  // TFLOP/s at 4096 tokens, causal, heads of 128
  AttentionShape shape;
  double forward_ms, backward_ms;  // published
  double within;                   // of either
};

AttentionShape causal(int heads, int tokens, int head, int window = 0, int value = 0) {
  return {2, heads, heads, tokens, tokens, head, true, value, window};
}

AttentionCost predicted(const Figure& figure) {
  DeviceRates rates;
  rates.flash = true;
  rates.attention = ComputeRate(figure.forward_rate * 1e12);
  rates.flash_backward = 2.5 * figure.forward_rate / figure.backward_rate;
  rates.attention_ramp = 480;
  rates.head_exponent = 0.58;
  return attention_cost(figure.shape, rates);
}

TEST(AttentionFigures, TakePublishedTimes) {
  const Figure figures[] = {
      {1408, 1148, causal(64, 4096, 128), 0.391, 1.198, 0.01},
      {1408, 1148, causal(64, 8192, 128), 1.397, 4.127, 0.11},
      {1408, 1148, causal(64, 32768, 128), 21.692, 71.756, 0.06},
      {1408, 1148, causal(64, 2048, 128), 0.125, 0.389, 0.16},
      {1408, 1148, causal(128, 4096, 192, 0, 128), 0.977, 3.383, 0.13},
      // Windows: tiles of 128 make twice the window's work, and a block of keys or two do not fill the pipeline.
      {1408, 1148, causal(128, 2048, 64, 128), 0.109, 0.237, 0.32},
      {1408, 1148, causal(128, 4096, 64, 128), 0.210, 0.465, 0.28},
      {1408, 1148, causal(128, 8192, 64, 128), 0.414, 0.911, 0.27},
      {518, 424, causal(64, 4096, 64, 1024), 0.358, 1.042, 0.35},
      {518, 424, causal(64, 8192, 64, 1024), 0.738, 2.149, 0.40},
  };
  for (const Figure& figure : figures) {
    SCOPED_TRACE(fmt::format("{} heads, {} tokens, window {}", figure.shape.heads, figure.shape.key_length, figure.shape.window));
    const AttentionCost cost = predicted(figure);
    EXPECT_NEAR(cost.forward.compute.base() * 1e3 / figure.forward_ms, 1, figure.within);
    EXPECT_NEAR(cost.backward.compute.base() * 1e3 / figure.backward_ms, 1, figure.within);
  }
}

// A window as long as the sequence is a causal mask, and keys that an indexer chose have no edges: 128 of 4096, 128 (1 - 128 /
// 8192) pairs a query, at the rate that a causal mask of 4096 tokens has.
TEST(AttentionFigures, EdgesAreThoseOfWindowsAlone) {
  const Figure whole{1408, 1148, causal(64, 4096, 128), 0, 0, 0}, longest{1408, 1148, causal(64, 4096, 128, 4096), 0, 0, 0};
  EXPECT_DOUBLE_EQ(predicted(longest).forward.compute.base(), predicted(whole).forward.compute.base());
  Figure nearly = longest, chosen = longest;
  nearly.shape.window = 4095;
  EXPECT_NEAR(predicted(nearly).forward.compute.base() / predicted(whole).forward.compute.base(), 1, 1e-3);
  chosen.shape.window = 128;
  chosen.shape.chosen = true;
  EXPECT_NEAR(predicted(chosen).forward.compute.base(), 4.0 * 2 * 64 * 4096 * 128 * (1 - 128.0 / 8192) * 128 / 1408e12, 1e-9);
}

}  // namespace
}  // namespace panpipe
