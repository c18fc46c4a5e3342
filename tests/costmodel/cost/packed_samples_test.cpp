// Attention over sequences of packed samples.
#include <gtest/gtest.h>

#include "tests/costmodel/cost/priced_models.hpp"

namespace panpipe {
namespace {

// Samples of 512 (4 in 5) and 4096 tokens in sequences of 4096: E[L^2] / E[L] = 3,565,158 / 1228.8 = 2901.3 tokens of 4096 are
// attended. The kernel runs at the rate of that many tokens, 1 + ramp / 2901.3 over 1 + ramp / 4096. Products do not change, nor
// does attention that computes all scores.
TEST(PackedSamples, CostTheirSquaresInFusedKernels) {
  const auto predicted = [](const std::string& attention, const std::string& packed) {
    return make(
        "panpipe: 1\ncluster: h100x8\nworkload: {model: gpt, layers: 2, hidden: 4096, heads: 32, sequence: 4096}\n"
        "batch: {micro: 1, microbatches: 8" +
        packed + "}\nprecision: bf16\nframework: {name: megatron-core, attention: " + attention + "}\n");
  };
  const auto attended = [](const Made& made) {
    Duration sum(0);
    for (const UnitCost& unit : made.cost().units)
      if (unit.layer == 0) sum += unit.forward.breakdown.attention;
    return sum;
  };
  const std::string packed = ", packed: {lengths: [512, 4096], shares: [80 %, 20 %]}";
  const auto whole = predicted("flash", ""), parts = predicted("flash", packed);
  const double tokens = (0.8 * 512 * 512 + 0.2 * 4096 * 4096) / (0.8 * 512 + 0.2 * 4096);
  const double ramp = whole->model->calibration(0).attention_ramp;
  EXPECT_NEAR(attended(*parts) / attended(*whole), tokens / 4096 * (1 + ramp / tokens) / (1 + ramp / 4096), 1e-9);
  const Layer before = layer_of(whole->cost()), after = layer_of(parts->cost());
  EXPECT_EQ(after.weight_gradient.total, before.weight_gradient.total);
  EXPECT_EQ(after.saved, before.saved);
  EXPECT_EQ(layer_of(predicted("fused-softmax", packed)->cost()).forward.total,
            layer_of(predicted("fused-softmax", "")->cost()).forward.total);
}

}  // namespace
}  // namespace panpipe
