// Models by their config.json, every class small: cut into stages and over tensor-parallel ranks they compute what one process
// computes. Windows, caps, sinks, linear biases, parallel halves, latents, routers and experts take part in all of it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "base/input/yaml_document.hpp"
#include "costmodel/workload/model_config.hpp"
#include "tests/exec/pipeline_equality.hpp"

namespace panpipe::exec {
namespace {

std::string small_config(const std::string& type) {
  std::string text =
      "{model_type: " + type +
      ", hidden_size: 32, num_hidden_layers: 4, num_attention_heads: 4, intermediate_size: 48, ffn_dim: 48, vocab_size: 96, "
      "max_position_embeddings: 16";
  if (type == "gemma2" || type == "gemma3_text" || type == "gpt_oss") text += ", head_dim: 8, sliding_window: 5";
  if (type == "mistral") text += ", sliding_window: 5, num_key_value_heads: 2";
  if (type == "gemma" || type == "qwen3") text += ", head_dim: 8";
  if (type == "gpt_oss" || type == "gemma3_text" || type == "phi3" || type == "qwen3") text += ", num_key_value_heads: 2";
  if (type == "falcon") text += ", new_decoder_architecture: true, num_kv_heads: 2, bias: true";
  if (type == "opt") text += ", word_embed_proj_dim: 16";
  if (type.rfind("deepseek", 0) == 0)
    text +=
        ", num_experts_per_tok: 2, n_routed_experts: 4, q_lora_rank: 16, kv_lora_rank: 8, qk_nope_head_dim: 8, "
        "qk_rope_head_dim: 4, v_head_dim: 6, moe_intermediate_size: 16, first_k_dense_replace: 1";
  if (type == "qwen2_moe" || type == "qwen3_moe")
    text +=
        ", num_experts: 4, num_experts_per_tok: 2, moe_intermediate_size: 16, shared_expert_intermediate_size: 24, head_dim: 8";
  if (type == "gpt_oss" || type == "mixtral") text += ", num_local_experts: 4, num_experts_per_tok: 2";
  return text + "}";
}

WorkloadRequest request_of(const std::string& type) {
  const NodePtr document = parse_document(small_config(type), "config.json", ".");
  WorkloadRequest request;
  request.config = std::make_shared<ModelConfig>(read_model_config(*document, 16));
  return request;
}

Workload small(const std::string& type, int degree = 1, bool sequence_parallel = false) {
  return make_workload(
      request_of(type),
      {.microbatch = 2, .tensor_degree = degree, .sequence_parallel = sequence_parallel, .precision = Precision::Fp32});
}

class ConfigModels : public testing::TestWithParam<std::string> {};

TEST_P(ConfigModels, EqualOneProcess) {
  const Workload workload = small(GetParam());
  const Trained one = train(*workload.graph, plan_of(*workload.graph, "gpipe", 1, 4));
  EXPECT_GT(one.gradients.size(), 10U);
  EXPECT_NEAR(one.loss, std::log(96.0), 0.4) << "an untrained model knows nothing: the loss is ln(classes)";
  for (const auto& [name, gradient] : one.gradients) EXPECT_GT(gradient.abs().max().item<float>(), 0) << name << " takes part";
  for (const std::string family : {"1f1b", "zb-h1"}) {
    SCOPED_TRACE(family);
    expect_equal(one, train(*workload.graph, plan_of(*workload.graph, family, 2, 4)));
  }
  if (GetParam() == "olmo2") return;  // its norm over all heads is not cut
  for (const bool sequence : {false, true}) {
    SCOPED_TRACE(sequence ? "over two ranks, the sequence too" : "over two ranks");
    const Workload cut = small(GetParam(), 2, sequence);
    expect_equal(one, train(*cut.graph, plan_of(*cut.graph, "gpipe", 1, 4)));
  }
}

// Windows and caps reach across the ranks' parts; a bias that differs by head cannot follow heads that are exchanged.
TEST_P(ConfigModels, EqualOneProcessWithSharedSequences) {
  const Workload workload = small(GetParam());
  const Trained one = train(*workload.graph, plan_of(*workload.graph, "gpipe", 1, 2));
  for (const ContextExchange exchange : {ContextExchange::Ring, ContextExchange::AllGather, ContextExchange::Ulysses}) {
    SCOPED_TRACE(static_cast<int>(exchange));
    const WorkloadShape shape{.microbatch = 2, .precision = Precision::Fp32, .context_degree = 2, .exchange = exchange};
    const auto train_shared = [&] {
      const SharedModel shared = shared_model(request_of(GetParam()), shape);
      return train(*shared.whole.graph, plan_of(shared.part.graph, "gpipe", 1, 2), &shared.part);
    };
    const bool heads_differ = GetParam() == "bloom" && exchange == ContextExchange::Ulysses;
    std::string refusal;
    if (heads_differ)
      refusal =
          "error: transformer.h.0.self_attention: linear biases differ from head to head, and heads are exchanged, which the "
          "executor "
          "does not do with parts of a sequence; run with context_exchange ring or all-gather";
    if (GetParam() == "gpt_oss")
      refusal = fmt::format(
          "error: model.layers.0.self_attn: attention has sinks, which the executor does not do with parts of a sequence; run {} "
          "with "
          "parallel.context 1",
          workload.graph->name);
    if (refusal.empty()) {
      expect_equal(one, train_shared());
      continue;
    }
    try {
      train_shared();
      ADD_FAILURE() << "not refused";
    } catch (const InputError& error) {
      EXPECT_EQ(error.what(), refusal);
    }
  }
}

std::vector<std::string> language_models() {
  std::vector<std::string> types = model_config_types();
  std::erase(types, "bert");  // the layers of the built-in one, which has these tests
  return types;
}

INSTANTIATE_TEST_SUITE_P(Classes, ConfigModels, testing::ValuesIn(language_models()),
                         [](const testing::TestParamInfo<std::string>& type) { return type.param; });

}  // namespace
}  // namespace panpipe::exec
