// Launches of a layer with experts, and the host that waits for the numbers of their rows.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "tests/costmodel/cost/priced_models.hpp"

namespace panpipe {
namespace {

// 16 experts over 8 H100: 2 on each.
std::unique_ptr<Made> experts(const std::string& framework, const std::string& more = "", const std::string& precision = "bf16") {
  auto made = make(fmt::format(
      "panpipe: 1\ncluster: {{file: clusters/h100x8.yaml}}\nworkload: {{config: {{model_type: mixtral, hidden_size: 1024, "
      "num_hidden_layers: 2, num_attention_heads: 8, num_key_value_heads: 2, intermediate_size: 2048, num_local_experts: 16, "
      "vocab_size: 8192}}, sequence: 2048}}\nbatch: {{micro: 1, microbatches: 8}}\nprecision: {}\nparallel: {{pipeline: 1, data: "
      "8, expert: 8}}\nframework: {{name: {}}}\n{}",
      precision, framework, more));
  made->cost();
  return made;
}

const UnitCost& with_experts(const Made& made) {
  for (const UnitCost& unit : made.cost().units)
    if (unit.layer == 0 && unit.forward.pieces.size() > 1) return unit;
  throw std::logic_error("no unit exchanges rows");
}

// Megatron-Core states 28 and 40 launches of a layer; its experts add 50 and 38, and two products for each of 2 experts, with two
// gradients each: 4 and 8. Two all-to-alls a pass: a launch, and 258 us x (8 - 4) / 4 until eight hosts are there, 8 launches of
// 32.9 us: 2 x 9.
TEST(ExpertHost, LaunchesOfALayer) {
  const auto made = experts("megatron-core, expert_counts: device, launch: 32.9 us");
  const Layer layer = layer_of(made->cost());
  EXPECT_EQ(layer.forward_launches, 28 + 50 + 4 + 18);
  EXPECT_EQ(layer.backward_launches, 40 + 38 + 8 + 18);
  const Layer grouped =
      layer_of(experts("megatron-core, expert_counts: device, expert_products: grouped, launch: 32.9 us")->cost());
  EXPECT_EQ(grouped.forward_launches, 28 + 50 + 18);
  EXPECT_EQ(grouped.backward_launches, 40 + 38 + 18);
}

// A host that reads the counts launches what follows while the device waits, and again when it is recomputed: 9 operators, two
// products for each of 2 experts, and two all-to-alls of 1 launch and 258 us / 20 us = 13 for the other hosts: 41 of 20 us.
TEST(ExpertHost, LaunchesAfterAWaitAreNotHidden) {
  const auto reads = experts("megatron-core, launch: 20 us"),
             knows = experts("megatron-core, launch: 20 us, expert_counts: device");
  const UnitCost &waiting = with_experts(*reads), &running = with_experts(*knows);
  EXPECT_EQ(running.forward.launches - waiting.forward.launches, 41);
  EXPECT_NEAR((waiting.forward.breakdown.total - running.forward.breakdown.total).base(), 41 * 20e-6, 1e-12);
  EXPECT_EQ(waiting.recompute_full.breakdown.total, waiting.forward.breakdown.total);
  EXPECT_EQ(waiting.input_gradient.launches, running.input_gradient.launches);
  EXPECT_EQ(waiting.input_gradient.breakdown.total, running.input_gradient.breakdown.total);
}

// Rows padded to a capacity are as many as everybody knows.
TEST(ExpertHost, WaitsForNothingWithACapacity) {
  const auto padded = experts("megatron-core", "experts: {capacity: 1}"),
             knows = experts("megatron-core, expert_counts: device", "experts: {capacity: 1}");
  EXPECT_EQ(with_experts(*padded).forward.launches, with_experts(*knows).forward.launches);
  EXPECT_EQ(with_experts(*padded).forward.breakdown.total, with_experts(*knows).forward.breakdown.total);
}

// A loop runs the products of its experts one after another, each in waves of tiles of its own, and launches everything between
// dispatch and combination twice: of eager kernels forward 1 dispatch, 2 products, SiLU, product with the other half, 1
// combination. Ranks without experts of others (no all-to-all) show it alone.
TEST(ExpertHost, ALoopRunsOneExpertAfterAnother) {
  const auto loop = experts("eager-sdpa, autocast: false, expert_products: loop, expert_counts: device"),
             grouped = experts("eager-sdpa, autocast: false, expert_products: grouped, expert_counts: device");
  const UnitCost &one = with_experts(*loop), &all = with_experts(*grouped);
  EXPECT_GE(one.forward.launches, all.forward.launches + 6);
  EXPECT_GT(one.forward.breakdown.compute, all.forward.breakdown.compute);
  EXPECT_EQ(one.forward.breakdown.memory, all.forward.breakdown.memory);
}

}  // namespace
}  // namespace panpipe
