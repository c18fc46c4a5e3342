// Models by their config.json: parameters to the last one, defaults of the classes, cuts over ranks, and faults with places.
#include "costmodel/workload/model_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/error.hpp"
#include "costmodel/workload/operator_cost.hpp"
#include "costmodel/workload/workload.hpp"
#include "tests/fault.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/texts.hpp"

namespace panpipe {
namespace {

using testing::HasSubstr;
using testing::Not;

class ModelConfigs : public testing::Test {
 protected:
  std::string file(const std::string& text) { return folder_.write(fmt_name(), text); }

  Workload make(const std::string& path, int degree = 1, int sequence = 256, bool sequence_parallel = false) {
    WorkloadRequest request;
    request.config_file = path;
    request.config = std::make_shared<ModelConfig>(read_model_config(path, sequence));
    return make_workload(request, {.degrees = {.tensor = degree, .micro = 1, .sequence_parallel = sequence_parallel},
                                   .precision = Precision::Bf16});
  }

  std::int64_t parameters(const std::string& text) { return make(file(text)).parameters; }

  std::string fault(const std::string& text) {
    const std::string path = file(text);
    return test::replaced(test::fault_of([&] { read_model_config(path, 256); }), folder_.path().string() + "/", "");
  }

 private:
  static std::string fmt_name() { return std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + ".json"; }
  const test::TemporaryFolder folder_;
};

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

// The counts of transformers 5.23 for the class's own defaults, and for choices that change the layers.
TEST_F(ModelConfigs, AbsentKeysTakeTheDefaultsOfTheClass) {
  const std::vector<std::pair<const char*, std::int64_t>> counted = {
      {"{model_type: llama}", 6'738'415'616},
      {"{architectures: [LlamaForCausalLM]}", 6'738'415'616},
      {"{model_type: mistral}", 7'241'732'096},
      {"{model_type: qwen2}", 12'049'846'272},
      {"{model_type: qwen3}", 12'049'461'248},
      {"{model_type: gemma}", 8'537'680'896},
      {"{model_type: gemma2}", 2'614'341'888},
      {"{model_type: gemma3_text}", 2'628'658'432},
      {"{model_type: phi}", 1'418'270'720},
      {"{model_type: phi3}", 3'821'079'552},
      {"{model_type: gpt2}", 124'439'808},
      {"{model_type: gpt_neox}", 20'554'567'680},
      {"{model_type: opt}", 125'239'296},
      {"{model_type: bloom}", 16'156'544},
      {"{model_type: falcon}", 6'921'720'704},
      {"{model_type: mixtral}", 46'702'792'704},
      {"{model_type: qwen2_moe}", 14'315'784'192},
      {"{model_type: qwen3_moe}", 15'350'731'776},
      {"{model_type: deepseek_v2, num_experts_per_tok: 6}", 38'612'307'968},
      {"{model_type: deepseek_v3}", 671'026'404'352},
      {"{model_type: gpt_oss}", 116'829'156'672},
      {"{model_type: olmo2}", 6'888'624'128},
      {"{model_type: smollm3}", 3'075'098'624},
      {"{model_type: arcee}", 4'022'766'080},
      {"{model_type: bert}", 110'106'428},
      // Head width apart from hidden, tied embeddings, biases everywhere.
      {"{model_type: llama, hidden_size: 2048, intermediate_size: 8192, num_hidden_layers: 16, num_key_value_heads: 8, "
       "head_dim: 64, vocab_size: 128256, tie_word_embeddings: true}",
       1'235'814'400},
      {"{model_type: mistral, vocab_size: 131072, hidden_size: 5120, head_dim: 128, num_hidden_layers: 40, sliding_window: null}",
       12'247'782'400},
      {"{model_type: gemma, hidden_size: 2048, intermediate_size: 16384, num_hidden_layers: 18, num_attention_heads: 8, "
       "num_key_value_heads: 1}",
       2'506'172'416},
      // Post-normalization, an embedding narrower than the hidden size, no norm behind the layers.
      {"{model_type: opt, hidden_size: 1024, ffn_dim: 4096, num_hidden_layers: 24, num_attention_heads: 16, "
       "word_embed_proj_dim: 512, do_layer_norm_before: false}",
       331'196'416},
      // Falcon RW 1B: ALiBi, biases, no parallel halves. Falcon 11B: one norm in front of both halves.
      {"{model_type: falcon, hidden_size: 2048, num_hidden_layers: 24, num_attention_heads: 32, multi_query: false, "
       "parallel_attn: false, alibi: true, bias: true, vocab_size: 50304}",
       1'311'625'216},
      {"{model_type: falcon, hidden_size: 4096, num_hidden_layers: 60, num_attention_heads: 32, num_kv_heads: 8, "
       "new_decoder_architecture: true, num_ln_in_parallel_attn: 1, ffn_hidden_size: 16384}",
       10'836'484'096},
      // Phi 4: queries, keys and values in one matrix, with fewer keys than queries.
      {"{model_type: phi3, vocab_size: 100352, hidden_size: 5120, intermediate_size: 17920, num_hidden_layers: 40, "
       "num_attention_heads: 40, num_key_value_heads: 10}",
       14'659'507'200},
      // BERT large with the loss over masked tokens alone, as in its published architectures.
      {"{model_type: bert, architectures: [BertForMaskedLM], hidden_size: 1024, intermediate_size: 4096, "
       "num_hidden_layers: 24, num_attention_heads: 16}",
       335'174'458},
  };
  for (const auto& [text, expected] : counted) EXPECT_EQ(parameters(text), expected) << text;
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

// The dimensions of a class, so that nothing is left to its defaults.
std::string stated(const std::string& type, const std::string& more) {
  return "{model_type: " + type +
         ", num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 8, num_key_value_heads: 8, head_dim: 8, "
         "intermediate_size: 96, vocab_size: 512, max_position_embeddings: 512, num_experts_per_tok: 2, "
         "moe_intermediate_size: 32" +
         more + "}";
}

// A head of another class, and what a class cannot do here, are reported.
TEST_F(ModelConfigs, WhatTheModelDoesOtherwiseIsReported) {
  const auto reported = [&](const std::string& type, const std::string& more) {
    std::vector<std::string> all = read_model_config(file(stated(type, more)), 128).assumptions;
    std::erase_if(all, [](const std::string& text) { return text.find("is no key that is known") != std::string::npos; });
    return all;
  };
  EXPECT_TRUE(reported("llama", ", architectures: [LlamaForCausalLM]").empty());
  EXPECT_EQ(reported("llama", ", architectures: [LlamaForSequenceClassification]"),
            std::vector<std::string>{
                "the model is built as LlamaForCausalLM, where architectures names LlamaForSequenceClassification"});
  EXPECT_EQ(reported("bert", ", architectures: [BertModel]"),
            std::vector<std::string>{"the model is built as BertForPreTraining, where architectures names BertModel"});
  EXPECT_TRUE(reported("bert", ", architectures: [BertForMaskedLM]").empty());
  EXPECT_EQ(reported("opt", ", layer_norm_elementwise_affine: false").size(), 1U);
  EXPECT_FALSE(read_model_config(file("{model_type: opt, _remove_final_layer_norm: true}"), 128).dimensions.traits.final_norm);
}

// A misspelt key leaves its dimension to the class, and both are reported: 16 layers are stated, the rest is LlamaConfig's.
TEST_F(ModelConfigs, ADimensionThatTheFileDoesNotStateIsReported) {
  const ModelConfig config = read_model_config(
      file("{model_type: llama, hiden_size: 2048, num_hidden_layers: 16, max_position_embeddings: 512, vocab_size: 512}"), 128);
  EXPECT_EQ(config.dimensions.hidden, 4096);
  EXPECT_EQ(config.assumptions,
            (std::vector<std::string>{
                "hidden_size 4096, num_attention_heads 32, intermediate_size 11008: the file does not state them; they are the "
                "defaults of LlamaForCausalLM",
                "'hiden_size' is no key that is known for LlamaForCausalLM, did you mean 'hidden_size'? It has no effect"}));
  ASSERT_EQ(config.not_followed.size(), 1U);
  EXPECT_EQ(config.not_followed[0].line, 1);
  EXPECT_EQ(config.not_followed[0].column, 21);  // behind "{model_type: llama, "
  // Without a sequence of the scenario, or with learned positions, their number counts too.
  const auto first = [&](const std::string& text, int sequence) {
    return read_model_config(file(text), sequence).assumptions.at(0);
  };
  EXPECT_THAT(first("{model_type: llama}", 0), HasSubstr("max_position_embeddings 2048: "));
  EXPECT_THAT(first("{model_type: llama}", 128), Not(HasSubstr("max_position_embeddings")));
  EXPECT_THAT(first("{model_type: gpt2}", 128), HasSubstr("max_position_embeddings 1024: "));
}

// Keys with which a class computes something else: with its default, or another value of the same effect, nothing is reported.
TEST_F(ModelConfigs, KeysThatChangeTheComputationAreNotFollowedSilently) {
  struct Case {
    const char *type, *key, *without, *with;
  };
  for (const Case& c : {Case{"gpt2", "scale_attn_by_inverse_layer_idx", "false", "true"},
                        {"gpt2", "scale_attn_weights", "true", "false"},
                        {"gpt2", "add_cross_attention", "false", "true"},
                        {"mixtral", "output_router_logits", "false", "true"},
                        {"qwen2_moe", "output_router_logits", "false", "true"},
                        {"qwen3_moe", "output_router_logits", "null", "true"},
                        {"gpt_oss", "output_router_logits", "false", "true"},
                        {"mixtral", "router_jitter_noise", "0.0", "0.01"},
                        {"opt", "layerdrop", "0.0", "0.1"},
                        {"gemma2", "use_bidirectional_attention", "null", "true"},
                        {"bert", "is_decoder", "false", "true"},
                        {"bert", "position_embedding_type", "absolute", "relative_key"},
                        {"deepseek_v3", "scoring_func", "sigmoid", "softmax"},
                        {"llama", "partial_rotary_factor", "1.0", "0.5"},
                        {"llama", "layer_types", "[full_attention, full_attention]", "[full_attention, sliding_attention]"}}) {
    const auto kept = [&](const char* value) {
      const ModelConfig config = read_model_config(file(stated(c.type, fmt::format(", {}: {}", c.key, value))), 128);
      std::vector<std::string> messages;
      for (const Diagnostic& fault : config.not_followed) {
        if (fault.message.find("is no key that is known") != std::string::npos) continue;  // of `stated`
        messages.push_back(fault.message);
        EXPECT_NE(std::find(config.assumptions.begin(), config.assumptions.end(), fault.message), config.assumptions.end());
      }
      return messages;
    };
    EXPECT_TRUE(kept(c.without).empty()) << c.type << " " << c.key;
    ASSERT_EQ(kept(c.with).size(), 1U) << c.type << " " << c.key;
    EXPECT_EQ(kept(c.with)[0].rfind(c.key, 0), 0U) << kept(c.with)[0];
  }
  EXPECT_EQ(
      read_model_config(file(stated("mixtral", ", num_local_experts: 4, output_router_logits: true")), 128).assumptions.back(),
      "output_router_logits: true has no effect here; with it, MixtralForCausalLM adds a balancing loss of the routers to the "
      "loss");
}

// Keys that transformers writes for every class, and further keys of published files, are known.
TEST_F(ModelConfigs, KeysWithoutEffectAreKnown) {
  for (const char* text :
       {"{model_type: gpt2, attn_pdrop: 0.1, bos_token_id: 50256, n_ctx: 1024, reorder_and_upcast_attn: true, resid_pdrop: 0.1, "
        "summary_first_dropout: 0.1, summary_type: cls_index, task_specific_params: {a: {do_sample: true}}, use_cache: true}",
        "{model_type: llama, _name_or_path: x, rope_scaling: {factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, "
        "original_max_position_embeddings: 8192, rope_type: llama3}, torch_dtype: bfloat16, pretraining_tp: 1}",
        "{model_type: qwen2, max_window_layers: 28, sliding_window: 131072, use_mrope: false, use_sliding_window: false}",
        "{model_type: bloom, attention_softmax_in_fp32: true, bias_dropout_fusion: true, offset_alibi: 100, seq_length: 2048, "
        "skip_bias_add_qkv: false, unk_token_id: 0}",
        "{model_type: deepseek_v3, aux_loss_alpha: 0.001, ep_size: 1, moe_layer_freq: 1, scoring_func: sigmoid, seq_aux: true, "
        "topk_method: noaux_tc, rope_scaling: {beta_fast: 32, beta_slow: 1, factor: 40, mscale: 1.0, mscale_all_dim: 1.0, "
        "original_max_position_embeddings: 4096, type: yarn}}",
        "{model_type: gpt_oss, experts_per_token: 4, initial_context_length: 4096, router_aux_loss_coef: 0.9, swiglu_limit: "
        "7.0}"})
    EXPECT_TRUE(read_model_config(file(text), 128).not_followed.empty()) << text;
  for (const auto& entry : std::filesystem::directory_iterator(data_directory() + "/workloads"))
    if (entry.path().extension() == ".json") {
      const ModelConfig config = read_model_config(entry.path(), 128);
      EXPECT_TRUE(config.not_followed.empty()) << entry.path();
      for (const std::string& assumption : config.assumptions) EXPECT_THAT(assumption, Not(HasSubstr("does not state")));
    }
}

// Keys that classes of other types read stand in published files of all: their neutral values are no fault, another value is one.
TEST_F(ModelConfigs, NeutralKeysOfOtherClassesAreKnown) {
  const auto faults = [&](const std::string& type, const std::string& more) {
    const std::string dimensions = type == "deepseek_v2" ? ", num_experts_per_tok: 2" : "";
    return read_model_config(file("{model_type: " + type + dimensions + more + "}"), 128).not_followed;
  };
  for (const std::string& type : model_config_types()) {
    const std::vector<Diagnostic> reported = faults(
        type,
        ", output_past: true, max_sequence_length: 2048, attention_bias: false, mlp_bias: false, use_sliding_window: false, "
        "max_window_layers: 28, bos_token: <s>, eos_token: </s>, pad_token: <pad>, unk_token: <unk>, _name_or_path: x, "
        "torch_dtype: bfloat16, dtype: bfloat16, transformers_version: 5.0.0, auto_map: {AutoConfig: x.Y}, use_cache: true, "
        "task_specific_params: {a: {do_sample: true}}, pretraining_tp: 1, quantization_config: {bits: 4}, xla_device: true");
    EXPECT_TRUE(reported.empty()) << type << ": " << reported.front().message;
  }
  for (const char* type : {"gpt2", "mistral", "bert"})
    for (const char* key : {"attention_bias", "mlp_bias", "use_sliding_window"})
      EXPECT_EQ(faults(type, fmt::format(", {}: true", key)).size(), 1U) << type << " " << key;
  // A window of every layer, which the list repeats; a list of two kinds is another model.
  const std::string window = ", num_hidden_layers: 2, sliding_window: 64, layer_types: ";
  EXPECT_TRUE(faults("mistral", window + "[sliding_attention, sliding_attention]").empty());
  EXPECT_EQ(faults("mistral", window + "[sliding_attention, full_attention]").size(), 1U);
  EXPECT_EQ(faults("llama", window + "[sliding_attention, sliding_attention]").size(), 2U);  // and sliding_window itself
}

// LlamaConfig: as many key-value heads as heads, 16 here, where the file states none.
TEST_F(ModelConfigs, AMisspeltDimensionThatFollowsFromOthersIsReported) {
  const ModelConfig config = read_model_config(
      file("{model_type: llama, hidden_size: 512, intermediate_size: 1024, num_hidden_layers: 2, num_attention_heads: 16, "
           "vocab_size: 512, num_kv_heads: 4}"),
      128);
  EXPECT_EQ(config.dimensions.kv_heads, 16);
  EXPECT_EQ(config.assumptions,
            (std::vector<std::string>{
                "num_key_value_heads 16: the file does not state it; it is the default of LlamaForCausalLM",
                "'num_kv_heads' is no key that is known for LlamaForCausalLM, did you mean 'num_key_value_heads'? It has no "
                "effect"}));
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

// Those of a configuration in the scenario stand in tests/input_errors.
TEST_F(ModelConfigs, FaultsOfAFileHaveItsName) {
  EXPECT_EQ(fault("{\n  \"model_type\": \"lama\"\n}"),
            "FaultsOfAFileHaveItsName.json:2:17: error: unknown model_type 'lama', did you mean 'llama'?\n"
            "  at model_type\n"
            "    2 |   \"model_type\": \"lama\"\n"
            "      |                 ^\n"
            "  help: known are " +
                fmt::format("{}", fmt::join(model_config_types(), ", ")) +
                "; any other model can be exported (tools/export_model.py)");
  EXPECT_THAT(fault("[1, 2]"), HasSubstr("a model's configuration is one object of keys and values"));
}

}  // namespace
}  // namespace panpipe
