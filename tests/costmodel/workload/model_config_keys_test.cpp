// Keys of a config.json: those that are not followed, misspelt or without effect, and faults with their places.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/costmodel/workload/model_configs.hpp"

namespace panpipe {
namespace {

using testing::HasSubstr;
using testing::Not;

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
