// Models by their config.json: parameters to the last one, defaults of the classes, cuts over ranks.
#include "costmodel/workload/model_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "costmodel/workload/operator_cost.hpp"
#include "tests/costmodel/workload/model_configs.hpp"

namespace panpipe {
namespace {

// Published sizes, and what transformers 5.23 (the last seven: 5.24) counts for the same file (parameters of the class on the
// meta device).
TEST_F(ModelConfigs, ShippedOnesHaveThePublishedParameters) {
  const std::vector<std::tuple<const char*, std::int64_t, double>> shipped = {
      {"llama-3-8b", 8'030'261'248, 8.03},
      {"llama-3-70b", 70'553'706'496, 70.6},
      {"llama-3.1-405b", 405'853'388'800, 406},
      {"mistral-7b", 7'241'732'096, 7.24},
      {"qwen2.5-7b", 7'615'616'512, 7.61},
      {"qwen3-8b", 8'190'735'360, 8.19},
      {"qwen3-30b-a3b", 30'532'122'624, 30.5},
      {"gemma-2-9b", 9'241'705'984, 9.24},
      {"phi-2", 2'779'683'840, 2.78},
      {"gpt-neox-20b", 20'554'567'680, 20.6},
      {"opt-6.7b", 6'658'473'984, 6.66},
      {"bloom-176b", 176'247'271'424, 176},
      {"falcon-40b", 41'303'293'952, 41.3},
      {"mixtral-8x7b", 46'702'792'704, 46.7},
      {"deepseek-v2-lite", 15'706'484'224, 15.7},
      {"deepseek-v3", 671'026'404'352, 671},
      {"gpt-oss-20b", 20'914'757'184, 20.9},
      {"kimi-k2", 1'026'408'209'408, 1026},
      {"glm-4.5-air", 106'852'245'504, 107},
      {"qwen3-next-80b-a3b", 79'674'391'296, 80},
      {"llama-4-scout", 107'769'861'120, 108},
      {"minimax-m2", 228'689'748'992, 229},
      {"deepseek-v3.2", 671'877'929'216, 672},
      {"nemotron-3-nano-30b-a3b", 31'577'937'344, 31.6},
  };
  for (const auto& [name, counted, published] : shipped) {
    const Workload workload = make(data_directory() + "/workloads/" + name + ".json");
    EXPECT_EQ(workload.parameters, counted) << name;
    EXPECT_NEAR(static_cast<double>(counted) * 1e-9, published, 0.005 * published) << name;
    EXPECT_NO_THROW(workload.graph->check()) << name;
    EXPECT_EQ(count_work(*workload.graph).size(), workload.graph->operators.size()) << name;
  }
}

// The counts of transformers for classes that counted_models.json does not have: it counts models of language alone.
TEST_F(ModelConfigs, BertAndAnArchitectureAreRead) {
  EXPECT_EQ(parameters("{architectures: [LlamaForCausalLM]}"), 6'738'415'616);
  EXPECT_EQ(parameters("{model_type: bert}"), 110'106'428);
  // BERT large with the loss over masked tokens alone, as in its published architectures.
  EXPECT_EQ(parameters("{model_type: bert, architectures: [BertForMaskedLM], hidden_size: 1024, intermediate_size: 4096, "
                       "num_hidden_layers: 24, num_attention_heads: 16}"),
            335'174'458);
}

// Files of older releases of transformers have other keys for the same.
TEST_F(ModelConfigs, OlderSpellingsAreRead) {
  const ModelConfig older = read_model_config(file("{model_type: llama, rope_theta: 500000, rope_scaling: null}"), 128);
  // A null is no window, whichever way YAML writes it; the class has one by default.
  EXPECT_EQ(read_model_config(file("{model_type: mistral, sliding_window: ~}"), 128).dimensions.traits.window, 0);
  const ModelConfig newer =
      read_model_config(file("{model_type: llama, rope_parameters: {rope_theta: 500000, rope_type: default}}"), 128);
  EXPECT_EQ(older.dimensions.traits.rotary_base, 500000);
  EXPECT_EQ(newer.dimensions.traits.rotary_base, 500000);
  EXPECT_EQ(parameters("{model_type: bloom, n_embed: 128, num_attention_heads: 4, n_layer: 3}"),
            parameters("{model_type: bloom, hidden_size: 128, n_head: 4, num_hidden_layers: 3}"));
  EXPECT_EQ(read_model_config(file("{model_type: gpt_neox, rotary_pct: 0.5}"), 128).dimensions.traits.rotary_features, 48);
}

// Norms over all heads together.
const std::set<std::string> kNotCut = {"olmo2",   "olmo3", "olmoe",  "flex_olmo",       "minimax_m2",
                                       "minimax", "bamba", "mamba2", "granitemoehybrid"};
const std::set<std::string> kLikeDeepSeek = {"kimi_k2", "glm_moe_dsa", "glm4_moe_lite", "kimi_linear"};

// What a class of 2025 or 2026 needs to be small and cut in two.
std::string more_of(const std::string& type) {
  const std::string experts = ", num_experts: 4, num_local_experts: 4, num_experts_per_tok: 2, moe_intermediate_size: 32";
  const std::string linear =
      ", linear_num_key_heads: 2, linear_num_value_heads: 4, linear_key_head_dim: 8, linear_value_head_dim: 8, "
      "shared_expert_intermediate_size: 32";
  if (type == "ernie4_5_moe") return ", moe_num_experts: 4, moe_k: 2, moe_intermediate_size: 32, moe_layer_end_index: 1";
  if (type == "hunyuan_v1_moe") return ", num_experts: 4, moe_topk: 2";
  if (type == "qwen3_next" || type == "qwen3_5_moe_text") return experts + linear;
  if (type == "qwen3_5_text") return linear;
  if (type == "kimi_linear") return ", num_experts: 4, linear_num_heads: 4, linear_head_dim: 8";
  if (type == "nemotron_h")
    return experts +
           ", hybrid_override_pattern: 'M*E-', mamba_num_heads: 8, mamba_head_dim: 8, ssm_state_size: 16, n_groups: 2, "
           "n_routed_experts: 4, moe_shared_expert_intermediate_size: 32, moe_latent_size: 16, head_dim: 8, "
           "num_key_value_heads: 4";
  if (type == "falcon_h1") return ", mamba_n_heads: 8, mamba_d_ssm: 64, mamba_n_groups: 2, mamba_d_state: 16";
  for (const char* other : {"glm4_moe", "dots1", "solar_open", "afmoe", "exaone_moe", "hy_v3", "lfm2_moe"})
    if (type == other) return experts + ", n_routed_experts: 4, num_key_value_heads: 4";
  for (const char* other : {"granitemoe", "granitemoeshared", "phimoe", "llama4_text"})
    if (type == other) return ", num_local_experts: 4, num_experts_per_tok: 2, num_key_value_heads: 4";
  return type == "glm" || type == "glm4" || type == "ernie4_5" || type == "nemotron" ? ", num_key_value_heads: 4" : "";
}

// Every class, small: over the ranks the shards add up, unsharded parameters repeat, and the floating-point operations stay.
TEST_F(ModelConfigs, ShardsMakeUpTheModel) {
  const char* const kSmall =
      "hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 8, intermediate_size: 96, vocab_size: 512, "
      "max_position_embeddings: 128";
  for (const std::string& type : model_config_types()) {
    SCOPED_TRACE(type);
    if (kNotCut.contains(type)) continue;
    std::string text = "{model_type: " + type + ", " + kSmall + more_of(type);
    if (type == "falcon") text += ", multi_query: false";
    if (type == "phi3") text += ", num_key_value_heads: 4";
    if (type == "opt") text += ", ffn_dim: 96";
    if (type.rfind("deepseek", 0) == 0 || kLikeDeepSeek.contains(type))
      text +=
          ", num_experts_per_tok: 2, n_routed_experts: 4, q_lora_rank: 16, kv_lora_rank: 8, qk_nope_head_dim: 8, "
          "qk_rope_head_dim: 4, v_head_dim: 8, moe_intermediate_size: 32, first_k_dense_replace: 1";
    if (type == "qwen2_moe" || type == "qwen3_moe")
      text += ", num_experts: 4, num_experts_per_tok: 2, moe_intermediate_size: 32, shared_expert_intermediate_size: 32";
    if (type == "gpt_oss" || type == "mixtral") text += ", num_local_experts: 4, num_experts_per_tok: 2";
    const std::string path = file(text + "}");
    const Workload one = make(path, 1, 64);
    for (const bool sequence : {false, true}) {
      const Workload two = make(path, 2, 64, sequence);
      std::int64_t sum = 0;
      for (const Tensor& tensor : two.graph->tensors)
        if (tensor.role == TensorRole::Parameter && tensor.tied_to < 0)
          sum += tensor.shard_dimension < 0 ? tensor.elements() : tensor.elements() * 2 / tensor.shard_replicas;
      EXPECT_EQ(sum, one.parameters) << type;
      EXPECT_EQ(two.parameters, one.parameters) << type;
      EXPECT_DOUBLE_EQ(two.model_flops.base(), one.model_flops.base()) << type;
      EXPECT_NO_THROW(two.graph->check()) << type;
    }
  }
}

// Mixtral's shape, one layer: every token passes 2 of 4 experts, so the layer's products are those of attention, a router of 4
// and two experts, and the head. Forward: 2 T (q, k, v, o 64 x (64 + 16 + 16 + 64) + router 64 x 4 + 2 x 3 x 64 x 96 + head 64 x
// 512) and 4 T T 64 of attention, T = 32; three times that with the backward.
TEST_F(ModelConfigs, ATokenPassesItsExpertsOnly) {
  const Workload workload = make(file("{model_type: mixtral, hidden_size: 64, num_hidden_layers: 1, num_attention_heads: 8, "
                                      "num_key_value_heads: 2, intermediate_size: 96, num_local_experts: 4, vocab_size: 512}"),
                                 1, 32);
  constexpr double kTokens = 32;
  const double products = 64 * (64 + 16 + 16 + 64) + 64 * 4 + 2 * 3 * 64 * 96 + 64 * 512;
  EXPECT_DOUBLE_EQ(workload.model_flops.base(), 3 * (2 * kTokens * products + 4 * kTokens * kTokens * 64));
  const auto works = count_work(*workload.graph);
  int grouped = 0;
  for (std::size_t i = 0; i < works.size(); ++i) {
    if (workload.graph->operators[i].target != "panpipe_nn::grouped_linear") continue;
    ++grouped;
    const GemmShape& shape = works[i].forward.gemms.at(0);
    EXPECT_EQ(shape.batch, 4);
    EXPECT_EQ(shape.m, 16);  // 32 tokens x 2 experts a token / 4 experts
  }
  EXPECT_EQ(grouped, 2);
}

// Gemma 2: even layers look back 16 tokens, odd ones all 64. Of 64 x 64 pairs a window leaves 16/64 (1 - 16/128) = 7/32.
TEST_F(ModelConfigs, AWindowShortensAttention) {
  const Workload workload =
      make(file("{model_type: gemma2, hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 8, num_key_value_heads: 4, "
                "head_dim: 8, intermediate_size: 96, vocab_size: 512, sliding_window: 16}"),
           1, 64);
  std::vector<double> shares;
  for (const OperatorWork& work : count_work(*workload.graph))
    if (work.kind == OperatorClass::Attention) shares.push_back(work.attention.attended_share());
  EXPECT_EQ(shares, (std::vector<double>{7.0 / 32, 0.5}));
}

// DeepSeek: queries and keys have 8 + 4 features, values 6. Scores and their product with the values: 2 T T heads (12 + 6).
TEST_F(ModelConfigs, LatentAttentionHasNarrowValues) {
  const Workload workload =
      make(file("{model_type: deepseek_v3, hidden_size: 64, num_hidden_layers: 1, num_attention_heads: 8, intermediate_size: 96, "
                "vocab_size: 512, q_lora_rank: 16, kv_lora_rank: 8, qk_nope_head_dim: 8, qk_rope_head_dim: 4, v_head_dim: 6, "
                "first_k_dense_replace: 1}"),
           1, 32);
  int found = 0;
  for (const OperatorWork& work : count_work(*workload.graph)) {
    if (work.kind != OperatorClass::Attention) continue;
    ++found;
    EXPECT_EQ(work.attention.head_size, 12);
    EXPECT_EQ(work.attention.value_size, 6);
    EXPECT_DOUBLE_EQ(work.forward.flops.base(), 2.0 * 32 * 32 * 8 * (12 + 6));
  }
  EXPECT_EQ(found, 1);
}

// transformers 5.23: SmolLM3Config gives windows to the layers without rotary positions, every fourth.
TEST_F(ModelConfigs, SmolLmHasWindowsWhereNothingIsRotary) {
  const ModelConfig config =
      read_model_config(file("{model_type: smollm3, num_hidden_layers: 8, use_sliding_window: true, sliding_window: 64}"), 256);
  const TransformerTraits& traits = config.dimensions.traits;
  EXPECT_EQ(traits.window, 64);
  EXPECT_EQ(traits.windowed, traits.no_rotary);
  EXPECT_EQ(std::count(traits.windowed.begin(), traits.windowed.end(), true), 2);
}

// Of a model of text and images the text is predicted, and nothing is trained.
TEST_F(ModelConfigs, TheTextPartOfAModelWithImagesIsPredicted) {
  const std::string inner = "{model_type: gemma3_text, num_hidden_layers: 2}";
  const ModelConfig config = read_model_config(file("{model_type: gemma3, text_config: " + inner + ", vision_config: {}}"), 128);
  EXPECT_EQ(config.type, "gemma3_text");
  EXPECT_EQ(config.dimensions.layers, 2);
  ASSERT_EQ(config.not_followed.size(), 1U);
  EXPECT_EQ(config.not_followed[0].message, "the text part of 'gemma3' alone: images and other parts have no effect");
  EXPECT_EQ(config.assumptions[0], config.not_followed[0].message);
}

// One further layer of DeepSeek-V3: an expert layer like the last one, the product of 2 x 64 to 64 features, three norms, and the
// head once more: operations grow by those of a layer, of the product and of the head, 3 x 2 T (2 x 64 x 64 + 64 x 512).
TEST_F(ModelConfigs, LayersForFurtherTokens) {
  const auto text = [](int layers, int further) {
    return fmt::format(
        "{{model_type: deepseek_v3, hidden_size: 64, num_hidden_layers: {}, num_attention_heads: 8, intermediate_size: 96, "
        "vocab_size: 512, q_lora_rank: 16, kv_lora_rank: 8, qk_nope_head_dim: 8, qk_rope_head_dim: 4, v_head_dim: 8, "
        "first_k_dense_replace: 1, n_routed_experts: 4, num_experts_per_tok: 2, moe_intermediate_size: 32, mtp_num_layers: {}}}",
        layers, further);
  };
  const Workload two = make(file(text(2, 0)), 1, 32), three = make(file(text(3, 0)), 1, 32),
                 further = make(file(text(2, 1)), 1, 32);
  EXPECT_EQ(further.parameters, three.parameters + 2 * 64 * 64 + 3 * 64);
  EXPECT_DOUBLE_EQ(further.model_flops.base(), three.model_flops.base() + 3 * 2 * 32.0 * (2 * 64 * 64 + 64 * 512));
  EXPECT_EQ(further.graph->units.size(), two.graph->units.size() + 3);
  EXPECT_EQ(further.graph->units[further.graph->units.size() - 2].name, "mtp.1.mlp");
  for (const bool sequence : {false, true}) {
    const Workload cut = make(file(text(2, 1)), 2, 32, sequence);
    EXPECT_EQ(cut.parameters, further.parameters);
    EXPECT_NO_THROW(cut.graph->check());
  }
}

// BERT's own activation and epsilon reach its layers: relu(x) reads and writes what gelu(x) does, under another name.
TEST_F(ModelConfigs, BertTakesItsOwnActivation) {
  const ModelConfig config = read_model_config(file("{model_type: bert, num_hidden_layers: 1, hidden_act: relu}"), 128);
  const OperatorGraph graph = config.build(config.model, config.dimensions, {});
  const auto count = [&](std::string_view name) {
    return std::count_if(graph.operators.begin(), graph.operators.end(),
                         [&](const Operator& op) { return op.target.find(name) != std::string::npos; });
  };
  EXPECT_EQ(count("gelu"), 0);
  EXPECT_EQ(count("relu"), 2);  // a layer, and the head
}

}  // namespace
}  // namespace panpipe
