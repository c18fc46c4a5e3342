#include "costmodel/workload/model_config_keys.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/input/null_value.hpp"
#include "base/text/characters.hpp"
#include "base/text/quantity_text.hpp"

namespace panpipe {
namespace {

// Keys of every class: names, tokenizers, generation, outputs, initial values, and probabilities of dropout, which the scenario
// states.
constexpr std::array kHarmlessKeys = {
    "architectures", "attn_implementation", "auto_map", "begin_suppress_tokens", "bos_token", "cache_implementation",
    "chunk_size_feed_forward", "cls_token", "compression_config", "dtype", "eos_token", "finetuning_task",
    "gradient_checkpointing", "id2label", "init_std", "initializer_range", "label2id", "mask_token", "max_sequence_length",
    "model_max_length", "model_type", "n_ctx", "name_or_path", "num_labels", "original_max_position_embeddings",
    "output_attentions", "output_hidden_states", "output_past", "pad_token", "prefix", "pretraining_tp", "problem_type",
    "quantization_config", "return_dict", "sep_token", "task_specific_params", "tokenizer_class", "torch_dtype", "torchscript",
    "transformers.js_config", "transformers_version", "unk_token", "unsloth_fixed", "unsloth_version", "use_bfloat16",
    "use_cache", "use_return_dict", "xla_device",
    // Generation.
    "bad_words_ids", "diversity_penalty", "do_sample", "early_stopping", "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty", "length_penalty", "max_length", "max_new_tokens", "min_length", "no_repeat_ngram_size",
    "num_beam_groups", "num_beams", "num_return_sequences", "output_scores", "remove_invalid_values", "repetition_penalty",
    "return_dict_in_generate", "suppress_tokens", "temperature", "tf_legacy_loss", "top_k", "top_p", "typical_p"};
constexpr std::array<std::string_view, 5> kHarmlessEnds = {"_token_id", "_token_ids", "dropout", "_pdrop", "_dropout_prob"};

// `types`: the classes between spaces; empty: all of them. `keys`: likewise. `neutral`: values between spaces with which the
// class computes what the model here does; empty: any. `what`: what the class does with another value; empty: it does not know
// the key, which files of other classes brought. Order: the first row that fits.
struct KeyRow {
  std::string_view types, keys, neutral = {}, what = {};
};

constexpr std::string_view kBalancing = "adds a balancing loss of the routers to the loss";
constexpr std::string_view kBothWays = "lets every token attend to later ones too";

// Classes with a balancing loss of the routers, and those without.
constexpr std::string_view kBalanced =
    "mixtral qwen2_moe qwen3_moe gpt_oss minimax minimax_m2 llama4_text ernie4_5_moe olmoe flex_olmo granitemoe granitemoeshared "
    "granitemoehybrid phimoe qwen3_next qwen3_5_moe_text jamba qwen3_vl_moe_text";
constexpr std::string_view kUnbalanced =
    "deepseek_v2 deepseek_v3 deepseek_v32 kimi_k2 kimi_linear glm_moe_dsa glm4_moe_lite glm4_moe hunyuan_v1_moe hy_v3 dots1 "
    "solar_open exaone_moe afmoe nemotron_h lfm2_moe glm4v_moe_text sarvam_moe";
constexpr std::string_view kLikeDeepSeek3 =
    "deepseek_v3 deepseek_v32 kimi_k2 kimi_linear glm_moe_dsa glm4_moe_lite glm4_moe dots1 solar_open";
constexpr std::string_view kStateSpaces = "nemotron_h granitemoehybrid bamba falcon_h1 mamba2 mamba falcon_mamba jamba";
constexpr std::string_view kScans = "mamba falcon_mamba jamba";

constexpr std::string_view kVision = "vision";  // every tower

constexpr KeyRow kRows[] = {
    {"", "is_encoder_decoder", "false", "is a part of an encoder and decoder"},
    {"", "add_cross_attention", "false", "adds attention to an encoder"},
    {"", "tie_encoder_decoder", "false", "ties an encoder to it"},
    {"", "cross_attention_hidden_size"},
    {"", "pruned_heads", "{}", "leaves heads out"},
    {"", "partial_rotary_factor", "1", "rotates a part of each head"},
    {"mistral mixtral phi3", "layer_types", "full_attention sliding_attention", "gives layers attention of several kinds"},
    {"deepseek_v32 glm_moe_dsa", "layer_types", "full_attention indexed_attention deepseek_sparse_attention",
     "gives layers attention of several kinds"},
    {"", "layer_types", "full_attention", "gives layers attention of several kinds"},
    {"bert", "is_decoder", "false", "hides later tokens from each token"},
    {"", "is_decoder"},
    {"bert", "position_embedding_type", "absolute", "uses relative positions"},
    {"bert", "directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type"},
    {"gpt2", "scale_attn_by_inverse_layer_idx", "false", "divides the scores of each layer by its number"},
    {"gpt2", "scale_attn_weights", "true", "leaves the scores without their scale"},
    {"gpt2",
     "reorder_and_upcast_attn predict_special_tokens n_special summary_activation summary_proj_to_labels summary_type "
     "summary_use_proj"},
    {"opt", "layerdrop", "0", "skips layers at random"},
    {"opt", "output_projection"},
    {"bloom",
     "attention_softmax_in_fp32 bias_dropout_fusion masked_softmax_fusion offset_alibi skip_bias_add skip_bias_add_qkv "
     "slow_but_exact"},
    {"falcon", "apply_residual_connection_post_layernorm", "false", "puts the residual connection behind the norm"},
    {"falcon", "num_ln_in_parallel_attn multi_query parallel_attn"},
    {"gemma gemma2 gemma3_text", "use_bidirectional_attention", "false", kBothWays},
    // altup_coef_clip: a bound that training does not reach
    {"gemma3n_text", "altup_coef_clip"},
    {"gemma2", "sliding_window_size"},
    {"phi", "img_processor flash_attn flash_rotary fused_dense"},
    {"phi3", "attention_bias", "false", "gives the attention's products biases"},
    {"phi3", "lm_head_bias", "false", "gives the head a bias"},
    {"phi3", "mlp_bias", "false", "gives the MLP's products biases"},
    {"phi3", "interpolate_factor", "1", "stretches the positions"},
    {"phi3", "full_attn_mod", "1", "gives layers attention of several kinds"},
    {"llama", "is_llama_config"},
    {"llama", "rope_interleaved", "false", "rotates neighbouring features"},
    {"llama", "use_sliding_window", "false", "gives the attention a window"},
    {"qwen2 qwen2_moe qwen3 qwen3_moe", "use_mrope", "false", "gives positions several dimensions"},
    // sliding_window: looked up where use_sliding_window is true
    {"qwen2 qwen2_moe qwen3 qwen3_moe smollm3", "sliding_window"},
    {kBalanced, "output_router_logits", "false", kBalancing},
    {kUnbalanced, "output_router_logits"},
    // router_aux_loss_coef: of output_router_logits
    {kBalanced, "router_aux_loss_coef"},
    {"mixtral minimax minimax_m2 llama4_text", "router_jitter_noise", "0", "multiplies what the routers read by noise"},
    {"qwen2_moe qwen3_moe", "router_jitter_noise"},
    {"gpt_oss", "experts_per_token initial_context_length"},
    {"deepseek_v2", "mlp_bias", "false", "gives the MLP's products biases"},
    {"deepseek_v2", "scoring_func", "softmax", "scores experts in another way"},
    {kLikeDeepSeek3, "scoring_func", "sigmoid", "scores experts in another way"},
    {"deepseek_v2", "topk_method", "greedy group_limited_greedy", "chooses experts in another way"},
    {kLikeDeepSeek3, "topk_method", "noaux_tc", "chooses experts in another way"},
    // aux_loss_alpha: of the published code; transformers has no such loss
    // qk_head_dim: the sum of two others
    {kUnbalanced, "aux_loss_alpha seq_aux ep_size qk_head_dim"},
    {"glm_moe_dsa deepseek_v32", "indexer_rope_interleave"},
    {"minimax_m2", "scoring_func", "sigmoid", "scores experts in another way"},
    {"minimax_m2", "use_routing_bias", "true", "chooses experts in another way"},
    {"minimax_m2", "qk_norm_type", "per_layer", "normalizes queries and keys in another way"},
    {"minimax_m2", "attn_type_list", "1", "gives layers attention of several kinds"},
    {"minimax_m2", "shared_intermediate_size", "0", "adds an expert for all tokens"},
    // num_mtp_modules: looked up where use_mtp is true
    {"minimax_m2", "num_mtp_modules mtp_transformer_layers"},
    {"llama4_text", "attn_temperature_tuning floor_scale attn_scale for_llm_compressor"},
    {"ernie4_5_moe", "moe_norm_min"},
    {"ernie4_5 ernie4_5_moe", "use_flash_attention"},
    {"hy_v3", "enable_moe_fp32_combine"},
    // router_jitter_noise: of the choice that is left out
    {"phimoe", "router_jitter_noise"},
    {"phimoe", "input_jitter_noise", "0", "multiplies what the layers read by noise"},
    {"hunyuan_v1_moe hunyuan_v1_dense", "use_cla", "false", "shares keys and values between layers"},
    {"hunyuan_v1_moe", "use_mixed_mlp_moe", "true", "leaves the expert for all tokens out"},
    {"hunyuan_v1_moe", "num_shared_expert", "1", "has several experts for all tokens"},
    {"hunyuan_v1_moe hunyuan_v1_dense", "use_qk_norm", "true", "leaves the norms of queries and keys out"},
    {"qwen3_next qwen3_5_text qwen3_5_moe_text", "attn_output_gate", "true", "leaves the gate behind the attention out"},
    {"qwen3_next qwen3_5_text qwen3_5_moe_text", "mamba_ssm_dtype"},
    {"qwen3_5_text qwen3_5_moe_text", "mtp_num_hidden_layers mtp_use_dedicated_embeddings"},
    {"qwen3_5_moe_text qwen3_5_text", "mlp_only_layers"},
    {kStateSpaces, "num_logits_to_keep use_mamba_kernels"},
    {kStateSpaces, "mamba_hidden_act", "silu", "activates convolutions in another way"},
    {kStateSpaces,
     "mamba_ssm_cache_dtype time_step_min time_step_max time_step_floor time_step_limit time_step_rank residual_in_fp32 "
     "rescale_prenorm_residual rope_theta"},
    // use_mambapy: ways to compute the same
    {kScans, "use_mambapy use_associative_scan time_step_scale time_step_init_scheme"},
    {kScans, "hidden_act", "silu", "activates convolutions in another way"},
    {"kimi_linear", "rope_theta"},
    // expand: heads and their features are stated
    {"mamba2", "expand"},
    {"bamba", "z_loss_coefficient", "0", "adds a loss of the logits' size"},
    {"falcon_h1", "projectors_bias", "false", "gives products biases"},
    {"falcon_h1", "mamba_norm_before_gate"},
    {"falcon_h1", "mamba_use_mlp", "true", "leaves the MLPs out"},
    // mlp_multipliers: left out, and reported
    {"falcon_h1",
     "mlp_multipliers key_multiplier attention_out_multiplier attention_in_multiplier ssm_multipliers ssm_in_multiplier "
     "ssm_out_multiplier"},
    {"granitemoehybrid", "normalization_function", "rmsnorm", "normalizes in another way"},
    {"granitemoehybrid", "init_method"},
    // num_hidden_layers: the list of layers counts them
    {"nemotron_h", "num_hidden_layers"},
    {"nemotron_h", "use_bias", "false", "gives products biases"},
    {"nemotron_h", "moe_shared_expert_overlap mtp_layers_block_type mtp_hybrid_override_pattern"},
    {"minimax", "attn_type_list"},
    {"lfm2 lfm2_moe", "use_pos_enc", "true", "has no positions"},
    {"lfm2", "block_use_swiglu", "true", "has an MLP without a gate"},
    {"lfm2", "block_use_xavier_init conv_use_xavier_init"},
    {"deepseek_v2", "rope_interleave", "true", "rotates halves of features"},
    // tokens_per_second: of videos
    // image_size: of towers that scale their positions, the largest
    {kVision,
     "rope_parameters rope_theta tokens_per_second image_size spatial_patch_size projection_dim vocab_size initializer_factor "
     "layer_scale_init_value use_mask_token"},
    {kVision, "use_absolute_position_embeddings", "true", "has no positions"},
    {kVision, "vision_feature_layer", "-1", "reads an earlier layer"},
    {kVision, "vision_feature_select_strategy", "default", "keeps the class token"},
    {kVision, "num_image_tokens"},
    // Keys that classes of other types read, and that tools write into every file.
    {"", "attention_bias", "false", ""},
    {"", "max_window_layers"},
    {"", "mlp_bias", "false", ""},
    {"", "use_sliding_window", "false", ""},
};

bool is_listed(std::string_view words, const std::string& word) {
  const std::vector<std::string> all = split_text(words, ' ');
  return std::find(all.begin(), all.end(), word) != all.end();
}

bool concerns(const KeyRow& row, const std::string& type) { return row.types.empty() || is_listed(row.types, type); }

bool is_word(const Node& value, std::string_view word) {
  if (value.kind == NodeKind::Sequence)  // each of them
    return std::all_of(value.items.begin(), value.items.end(), [&](const auto& item) { return is_word(*item, word); });
  if (value.kind == NodeKind::Map) return word == "{}" && value.entries.empty();
  if (value.text == word) return true;
  const auto number = parse_number(value.text).value, wanted = parse_number(word).value;
  return number && wanted && *number == *wanted;
}

bool is_neutral(const Node& value, const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) { return is_word(value, word); });
}

}  // namespace

UnusedKey unused_key(const std::string& type, const std::string& key, const Node& value) {
  const auto ends = [&](std::string_view end) { return key.ends_with(end); };
  if (is_null(value) || key.starts_with('_') || std::any_of(kHarmlessEnds.begin(), kHarmlessEnds.end(), ends) ||
      std::find(kHarmlessKeys.begin(), kHarmlessKeys.end(), std::string_view(key)) != kHarmlessKeys.end())
    return {KeyEffect::None, ""};
  for (const KeyRow& row : kRows)
    if (is_listed(row.keys, key) && concerns(row, type)) {
      if (row.neutral.empty() || is_neutral(value, split_text(row.neutral, ' '))) return {KeyEffect::None, ""};
      if (row.what.empty()) break;
      return {KeyEffect::Changes, std::string(row.what)};
    }
  return {};
}

std::vector<std::string> unused_keys_of(const std::string& type) {
  std::vector<std::string> keys(kHarmlessKeys.begin(), kHarmlessKeys.end());
  for (const KeyRow& row : kRows)
    if (concerns(row, type))
      for (std::string& key : split_text(row.keys, ' ')) keys.push_back(std::move(key));
  return keys;
}

// modeling_rope_utils.py of transformers 5.23, with the names that older files have ("su", "mrope").
const std::vector<std::string>& rotary_scaling_kinds() {
  static const std::vector<std::string> kinds = {"default",  "linear",       "llama3", "dynamic", "yarn",
                                                 "longrope", "proportional", "su",     "mrope"};
  return kinds;
}

const std::vector<std::string>& rotary_numbers() {
  static const std::vector<std::string> keys = {"rope_theta",       "partial_rotary_factor",
                                                "factor",           "low_freq_factor",
                                                "high_freq_factor", "original_max_position_embeddings",
                                                "attention_factor", "beta_fast",
                                                "beta_slow",        "mscale",
                                                "mscale_all_dim",   "short_mscale",
                                                "long_mscale"};
  return keys;
}

const std::vector<std::string>& rotary_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> all = rotary_numbers();
    for (const char* other :
         {"rope_type", "type", "short_factor", "long_factor", "mrope_section", "mrope_interleaved", "llama_4_scaling_beta",
          "max_position_embeddings", "truncate", "finetuned", "full_attention", "sliding_attention"})
      all.emplace_back(other);
    return all;
  }();
  return keys;
}

}  // namespace panpipe
