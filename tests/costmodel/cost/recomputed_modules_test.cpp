// Recompute by Megatron-Core's modules: what is kept no longer, and what runs again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/costmodel/cost/priced_models.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

double tokens_by_hidden(const GptCase& c) { return static_cast<double>(c.sequence) * c.micro * c.hidden; }

// Of equation 2's 34 bytes and the scores (Korthikanti et al., arXiv 2205.05198): `mlp` keeps its input and drops that of GELU
// and of the second product, 8 + 8; `layernorm` what both normalizations make, 2 + 2; `core_attn` the scores. An MLP that runs
// again has two products of 8 h^2 operations a token each; normalizations have none.
TEST(RecomputedModules, OfAGptLayer) {
  GptCase c;
  c.tensor = 1;
  const double score = 5.0 * c.heads * c.sequence / c.hidden;
  const auto layer = [&](const std::string& modules) {
    GptCase listed = c;
    listed.extra = "recompute: {modules: [" + modules + "]}\n";
    return layer_of(make_gpt(listed)->cost());
  };
  const auto kept = [&](const std::string& modules) { return layer(modules).saved_selective / tokens_by_hidden(c); };
  EXPECT_NEAR(kept("mlp"), 34 - 16 + score, 0.005);
  EXPECT_NEAR(kept("layernorm"), 34 - 4 + score, 0.005);
  EXPECT_NEAR(kept("core_attn"), 34, 0.005);
  EXPECT_NEAR(kept("core_attn, mlp"), 34 - 16, 0.005);
  EXPECT_NEAR(kept("core_attn, layernorm, mlp"), 34 - 20, 0.005);
  EXPECT_DOUBLE_EQ(layer("mlp").recompute_selective.work.base(), 16 * tokens_by_hidden(c) * c.hidden);
  EXPECT_DOUBLE_EQ(layer("layernorm").recompute_selective.work.base(), 0);
}

// The whole MLP is called again, with the sum over the tensor-parallel ranks at its end.
TEST(RecomputedModules, AnMlpCommunicatesAgain) {
  GptCase c;
  c.extra = "recompute: {modules: [mlp]}\n";
  const auto made = make_gpt(c);
  int collectives = 0;
  for (const UnitCost& unit : made->cost().units)
    for (const Piece& piece : unit.recompute_selective.pieces) collectives += unit.layer == 0 && piece.collective;
  EXPECT_EQ(collectives, 1);
}

std::unique_ptr<Made> model(const std::string& config, const std::string& modules) {
  return make("panpipe: 1\ncluster: clusters/h100x8.yaml\nworkload: {config: workloads/" + config +
              ".json, sequence: 1024, layers: 2}\nbatch: {micro: 1, microbatches: 1}\nprecision: bf16\nparallel: {pipeline: 1}\n"
              "framework: {name: megatron-core, attention: flash-3}\nrecompute: " +
              modules + "\n");
}

// Qwen3-30B-A3B: 8 experts a token of width 768. `moe_act` drops the product of the activation's result with the other half, 2
// bytes for each (the kernel makes that result again in any case); no product runs again. `moe` keeps nothing of the layer but
// its input: the experts' three products run again.
TEST(RecomputedModules, OfALayerOfExperts) {
  const double rows = 1024 * 8, width = 768, hidden = 2048;
  const auto plain = layer_of(model("qwen3-30b-a3b", "none")->cost());
  const auto activation = layer_of(model("qwen3-30b-a3b", "{modules: [moe_act]}")->cost());
  EXPECT_DOUBLE_EQ(plain.saved - activation.saved_selective, rows * width * 2);
  EXPECT_DOUBLE_EQ(activation.recompute_selective.work.base(), 0);
  const auto all = layer_of(model("qwen3-30b-a3b", "{modules: [moe]}")->cost());
  EXPECT_LT(all.saved_selective, activation.saved_selective);
  const double router = 2 * 1024 * hidden * 128;
  EXPECT_NEAR(all.recompute_selective.work.base(), rows * 2 * 3 * hidden * width + router, 1);
}

// GPT-NeoX's blocks are one unit, whose attention and MLP stand side by side: hidden 6144, width 24576.
TEST(RecomputedModules, OfAnMlpWithAttention) {
  const auto plain = layer_of(model("gpt-neox-20b", "none")->cost());
  const auto made = layer_of(model("gpt-neox-20b", "{modules: [mlp]}")->cost());
  EXPECT_DOUBLE_EQ(plain.saved - made.saved_selective, 1024 * 24576.0 * 4);
  EXPECT_DOUBLE_EQ(made.recompute_selective.work.base(), 1024 * 2.0 * 2 * 6144 * 24576);
}

// DeepSeek-V2-Lite: 16 heads, queries and keys 128 + 64 wide, values 128. `mla_up_proj` drops queries and keys as they are
// turned, and the keys and values that the latents were widened to, 2 x 16 x (192 + 192 + 256) bytes a token; the products that
// make queries (2048 -> 16 x 192) and widen the latents (512 -> 16 x 256) run again.
TEST(RecomputedModules, OfLatentAttention) {
  const auto plain = layer_of(model("deepseek-v2-lite", "none")->cost());
  const auto made = layer_of(model("deepseek-v2-lite", "{modules: [mla_up_proj]}")->cost());
  EXPECT_DOUBLE_EQ(plain.saved - made.saved_selective, 1024 * 2.0 * 16 * (192 + 192 + 256));
  EXPECT_DOUBLE_EQ(made.recompute_selective.work.base(), 1024 * 2.0 * 16 * (2048 * 192 + 512 * 256));
}

// Its second layer has two shared experts of width 1408: gate, up and down run again; 2 bytes each of gate, up and their product
// are dropped.
TEST(RecomputedModules, OfSharedExperts) {
  const auto plain = layer_of(model("deepseek-v2-lite", "none")->cost(), 1);
  const auto made = layer_of(model("deepseek-v2-lite", "{modules: [shared_experts]}")->cost(), 1);
  const double width = 2 * 1408, tokens = 1024;
  EXPECT_DOUBLE_EQ(plain.saved - made.saved_selective, tokens * width * 6);
  EXPECT_DOUBLE_EQ(made.recompute_selective.work.base(), tokens * 2 * 3 * 2048 * width);
}

TEST(RecomputedModules, ThatTheModelLacksAreNamed) {
  const auto made = model("llama-3-8b", "{modules: [moe_act]}");
  const std::string fault = test::fault_of([&] { made->cost(); });
  EXPECT_THAT(fault, testing::HasSubstr("the model has no module 'moe_act'"));
}

}  // namespace
}  // namespace panpipe
