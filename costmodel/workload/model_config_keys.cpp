#include "costmodel/workload/model_config_keys.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/input/null_value.hpp"
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

// `types`: the classes between spaces; empty: all of them. `neutral`: values between '|' with which the class computes what the
// model here does; empty: any. `what`: what the class does with another value; empty: it does not know the key, which files
// of other classes brought. Order: the first row that fits.
struct KeyRow {
  std::string_view types, key, neutral, what;
};

constexpr std::string_view kBalancing = "adds a balancing loss of the routers to the loss";
constexpr std::string_view kBothWays = "lets every token attend to later ones too";

// Classes with a balancing loss of the routers, and those without.
constexpr std::string_view kBalanced =
    " mixtral qwen2_moe qwen3_moe gpt_oss minimax minimax_m2 llama4_text ernie4_5_moe olmoe flex_olmo granitemoe "
    "granitemoeshared "
    "granitemoehybrid phimoe qwen3_next qwen3_5_moe_text jamba qwen3_vl_moe_text ";
constexpr std::string_view kUnbalanced =
    " deepseek_v2 deepseek_v3 deepseek_v32 kimi_k2 kimi_linear glm_moe_dsa glm4_moe_lite glm4_moe hunyuan_v1_moe hy_v3 dots1 "
    "solar_open exaone_moe afmoe nemotron_h lfm2_moe glm4v_moe_text sarvam_moe ";
constexpr std::string_view kLikeDeepSeek3 =
    " deepseek_v3 deepseek_v32 kimi_k2 kimi_linear glm_moe_dsa glm4_moe_lite glm4_moe dots1 solar_open ";
constexpr std::string_view kStateSpaces = " nemotron_h granitemoehybrid bamba falcon_h1 mamba2 mamba falcon_mamba jamba ";
constexpr std::string_view kScans = " mamba falcon_mamba jamba ";

constexpr std::string_view kVision = " vision ";  // every tower

constexpr KeyRow kRows[] = {
    {"", "is_encoder_decoder", "false", "is a part of an encoder and decoder"},
    {"", "add_cross_attention", "false", "adds attention to an encoder"},
    {"", "tie_encoder_decoder", "false", "ties an encoder to it"},
    {"", "cross_attention_hidden_size", "", ""},
    {"", "pruned_heads", "{}", "leaves heads out"},
    {"", "partial_rotary_factor", "1", "rotates a part of each head"},
    {" mistral mixtral phi3 ", "layer_types", "full_attention|sliding_attention", "gives layers attention of several kinds"},
    {" deepseek_v32 glm_moe_dsa ", "layer_types", "full_attention|indexed_attention|deepseek_sparse_attention",
     "gives layers attention of several kinds"},
    {"", "layer_types", "full_attention", "gives layers attention of several kinds"},
    {" bert ", "is_decoder", "false", "hides later tokens from each token"},
    {"", "is_decoder", "", ""},
    {" bert ", "position_embedding_type", "absolute", "uses relative positions"},
    {" bert ", "directionality", "", ""},
    {" bert ", "pooler_fc_size", "", ""},
    {" bert ", "pooler_num_attention_heads", "", ""},
    {" bert ", "pooler_num_fc_layers", "", ""},
    {" bert ", "pooler_size_per_head", "", ""},
    {" bert ", "pooler_type", "", ""},
    {" gpt2 ", "scale_attn_by_inverse_layer_idx", "false", "divides the scores of each layer by its number"},
    {" gpt2 ", "scale_attn_weights", "true", "leaves the scores without their scale"},
    {" gpt2 ", "reorder_and_upcast_attn", "", ""},
    {" gpt2 ", "predict_special_tokens", "", ""},
    {" gpt2 ", "n_special", "", ""},
    {" gpt2 ", "summary_activation", "", ""},
    {" gpt2 ", "summary_proj_to_labels", "", ""},
    {" gpt2 ", "summary_type", "", ""},
    {" gpt2 ", "summary_use_proj", "", ""},
    {" opt ", "layerdrop", "0", "skips layers at random"},
    {" opt ", "output_projection", "", ""},
    {" bloom ", "attention_softmax_in_fp32", "", ""},
    {" bloom ", "bias_dropout_fusion", "", ""},
    {" bloom ", "masked_softmax_fusion", "", ""},
    {" bloom ", "offset_alibi", "", ""},
    {" bloom ", "skip_bias_add", "", ""},
    {" bloom ", "skip_bias_add_qkv", "", ""},
    {" bloom ", "slow_but_exact", "", ""},
    {" falcon ", "apply_residual_connection_post_layernorm", "false", "puts the residual connection behind the norm"},
    {" falcon ", "num_ln_in_parallel_attn", "", ""},
    {" falcon ", "multi_query", "", ""},
    {" falcon ", "parallel_attn", "", ""},
    {" gemma gemma2 gemma3_text ", "use_bidirectional_attention", "false", kBothWays},
    {" gemma3n_text ", "altup_coef_clip", "", ""},  // a bound that training does not reach
    {" gemma2 ", "sliding_window_size", "", ""},
    {" phi ", "img_processor", "", ""},
    {" phi ", "flash_attn", "", ""},
    {" phi ", "flash_rotary", "", ""},
    {" phi ", "fused_dense", "", ""},
    {" phi3 ", "attention_bias", "false", "gives the attention's products biases"},
    {" phi3 ", "lm_head_bias", "false", "gives the head a bias"},
    {" phi3 ", "mlp_bias", "false", "gives the MLP's products biases"},
    {" phi3 ", "interpolate_factor", "1", "stretches the positions"},
    {" phi3 ", "full_attn_mod", "1", "gives layers attention of several kinds"},
    {" llama ", "is_llama_config", "", ""},
    {" llama ", "rope_interleaved", "false", "rotates neighbouring features"},
    {" llama ", "use_sliding_window", "false", "gives the attention a window"},
    {" qwen2 qwen2_moe qwen3 qwen3_moe ", "use_mrope", "false", "gives positions several dimensions"},
    {" qwen2 qwen2_moe qwen3 qwen3_moe smollm3 ", "sliding_window", "", ""},  // looked up where use_sliding_window is true
    {kBalanced, "output_router_logits", "false", kBalancing},
    {kUnbalanced, "output_router_logits", "", ""},
    {kBalanced, "router_aux_loss_coef", "", ""},  // of output_router_logits
    {" mixtral minimax minimax_m2 llama4_text ", "router_jitter_noise", "0", "multiplies what the routers read by noise"},
    {" qwen2_moe qwen3_moe ", "router_jitter_noise", "", ""},
    {" gpt_oss ", "experts_per_token", "", ""},
    {" gpt_oss ", "initial_context_length", "", ""},
    {" deepseek_v2 ", "mlp_bias", "false", "gives the MLP's products biases"},
    {" deepseek_v2 ", "scoring_func", "softmax", "scores experts in another way"},
    {kLikeDeepSeek3, "scoring_func", "sigmoid", "scores experts in another way"},
    {" deepseek_v2 ", "topk_method", "greedy|group_limited_greedy", "chooses experts in another way"},
    {kLikeDeepSeek3, "topk_method", "noaux_tc", "chooses experts in another way"},
    {kUnbalanced, "aux_loss_alpha", "", ""},  // of the published code; transformers has no such loss
    {kUnbalanced, "seq_aux", "", ""},
    {kUnbalanced, "ep_size", "", ""},
    {kUnbalanced, "qk_head_dim", "", ""},  // the sum of two others
    {" glm_moe_dsa deepseek_v32 ", "indexer_rope_interleave", "", ""},
    {" minimax_m2 ", "scoring_func", "sigmoid", "scores experts in another way"},
    {" minimax_m2 ", "use_routing_bias", "true", "chooses experts in another way"},
    {" minimax_m2 ", "qk_norm_type", "per_layer", "normalizes queries and keys in another way"},
    {" minimax_m2 ", "attn_type_list", "1", "gives layers attention of several kinds"},
    {" minimax_m2 ", "shared_intermediate_size", "0", "adds an expert for all tokens"},
    {" minimax_m2 ", "num_mtp_modules", "", ""},  // looked up where use_mtp is true
    {" minimax_m2 ", "mtp_transformer_layers", "", ""},
    {" llama4_text ", "attn_temperature_tuning", "", ""},
    {" llama4_text ", "floor_scale", "", ""},
    {" llama4_text ", "attn_scale", "", ""},
    {" llama4_text ", "for_llm_compressor", "", ""},
    {" ernie4_5_moe ", "moe_norm_min", "", ""},
    {" ernie4_5 ernie4_5_moe ", "use_flash_attention", "", ""},
    {" hy_v3 ", "enable_moe_fp32_combine", "", ""},
    {" phimoe ", "router_jitter_noise", "", ""},  // of the choice that is left out
    {" phimoe ", "input_jitter_noise", "0", "multiplies what the layers read by noise"},
    {" hunyuan_v1_moe hunyuan_v1_dense ", "use_cla", "false", "shares keys and values between layers"},
    {" hunyuan_v1_moe ", "use_mixed_mlp_moe", "true", "leaves the expert for all tokens out"},
    {" hunyuan_v1_moe ", "num_shared_expert", "1", "has several experts for all tokens"},
    {" hunyuan_v1_moe hunyuan_v1_dense ", "use_qk_norm", "true", "leaves the norms of queries and keys out"},
    {" qwen3_next qwen3_5_text qwen3_5_moe_text ", "attn_output_gate", "true", "leaves the gate behind the attention out"},
    {" qwen3_next qwen3_5_text qwen3_5_moe_text ", "mamba_ssm_dtype", "", ""},
    {" qwen3_5_text qwen3_5_moe_text ", "mtp_num_hidden_layers", "", ""},
    {" qwen3_5_text qwen3_5_moe_text ", "mtp_use_dedicated_embeddings", "", ""},
    {" qwen3_5_moe_text qwen3_5_text ", "mlp_only_layers", "", ""},
    {kStateSpaces, "num_logits_to_keep", "", ""},
    {kStateSpaces, "use_mamba_kernels", "", ""},
    {kStateSpaces, "mamba_hidden_act", "silu", "activates convolutions in another way"},
    {kStateSpaces, "mamba_ssm_cache_dtype", "", ""},
    {kStateSpaces, "time_step_min", "", ""},
    {kStateSpaces, "time_step_max", "", ""},
    {kStateSpaces, "time_step_floor", "", ""},
    {kStateSpaces, "time_step_limit", "", ""},
    {kStateSpaces, "time_step_rank", "", ""},
    {kStateSpaces, "residual_in_fp32", "", ""},
    {kStateSpaces, "rescale_prenorm_residual", "", ""},
    {kStateSpaces, "rope_theta", "", ""},
    {kScans, "use_mambapy", "", ""},  // ways to compute the same
    {kScans, "use_associative_scan", "", ""},
    {kScans, "time_step_scale", "", ""},
    {kScans, "time_step_init_scheme", "", ""},
    {kScans, "hidden_act", "silu", "activates convolutions in another way"},
    {" kimi_linear ", "rope_theta", "", ""},
    {" mamba2 ", "expand", "", ""},  // heads and their features are stated
    {" bamba ", "z_loss_coefficient", "0", "adds a loss of the logits' size"},
    {" falcon_h1 ", "projectors_bias", "false", "gives products biases"},
    {" falcon_h1 ", "mamba_norm_before_gate", "", ""},
    {" falcon_h1 ", "mamba_use_mlp", "true", "leaves the MLPs out"},
    {" falcon_h1 ", "mlp_multipliers", "", ""},  // left out, and reported
    {" falcon_h1 ", "key_multiplier", "", ""},
    {" falcon_h1 ", "attention_out_multiplier", "", ""},
    {" falcon_h1 ", "attention_in_multiplier", "", ""},
    {" falcon_h1 ", "ssm_multipliers", "", ""},
    {" falcon_h1 ", "ssm_in_multiplier", "", ""},
    {" falcon_h1 ", "ssm_out_multiplier", "", ""},
    {" granitemoehybrid ", "normalization_function", "rmsnorm", "normalizes in another way"},
    {" granitemoehybrid ", "init_method", "", ""},
    {" nemotron_h ", "num_hidden_layers", "", ""},  // the list of layers counts them
    {" nemotron_h ", "use_bias", "false", "gives products biases"},
    {" nemotron_h ", "moe_shared_expert_overlap", "", ""},
    {" nemotron_h ", "mtp_layers_block_type", "", ""},
    {" nemotron_h ", "mtp_hybrid_override_pattern", "", ""},
    {" minimax ", "attn_type_list", "", ""},
    {" lfm2 lfm2_moe ", "use_pos_enc", "true", "has no positions"},
    {" lfm2 ", "block_use_swiglu", "true", "has an MLP without a gate"},
    {" lfm2 ", "block_use_xavier_init", "", ""},
    {" lfm2 ", "conv_use_xavier_init", "", ""},
    {" deepseek_v2 ", "rope_interleave", "true", "rotates halves of features"},
    {kVision, "rope_parameters", "", ""},
    {kVision, "rope_theta", "", ""},
    {kVision, "tokens_per_second", "", ""},  // of videos
    {kVision, "image_size", "", ""},         // of towers that scale their positions, the largest
    {kVision, "spatial_patch_size", "", ""},
    {kVision, "projection_dim", "", ""},
    {kVision, "vocab_size", "", ""},
    {kVision, "initializer_factor", "", ""},
    {kVision, "layer_scale_init_value", "", ""},
    {kVision, "use_mask_token", "", ""},
    {kVision, "use_absolute_position_embeddings", "true", "has no positions"},
    {kVision, "vision_feature_layer", "-1", "reads an earlier layer"},
    {kVision, "vision_feature_select_strategy", "default", "keeps the class token"},
    {kVision, "num_image_tokens", "", ""},
    // Keys that classes of other types read, and that tools write into every file.
    {"", "attention_bias", "false", ""},
    {"", "max_window_layers", "", ""},
    {"", "mlp_bias", "false", ""},
    {"", "use_sliding_window", "false", ""},
};

bool concerns(const KeyRow& row, const std::string& type) {
  return row.types.empty() || row.types.find(" " + type + " ") != std::string_view::npos;
}

bool is_word(const Node& value, std::string_view word) {
  if (value.kind == NodeKind::Sequence)  // each of them
    return std::all_of(value.items.begin(), value.items.end(), [&](const auto& item) { return is_word(*item, word); });
  if (value.kind == NodeKind::Map) return word == "{}" && value.entries.empty();
  if (value.text == word) return true;
  const auto number = parse_number(value.text).value, wanted = parse_number(word).value;
  return number && wanted && *number == *wanted;
}

bool is_neutral(const Node& value, std::string_view words) {
  for (std::size_t begin = 0; begin <= words.size();) {
    const std::size_t end = std::min(words.find('|', begin), words.size());
    if (is_word(value, words.substr(begin, end - begin))) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

UnusedKey unused_key(const std::string& type, const std::string& key, const Node& value) {
  const auto ends = [&](std::string_view end) { return key.ends_with(end); };
  if (is_null(value) || key.starts_with('_') || std::any_of(kHarmlessEnds.begin(), kHarmlessEnds.end(), ends) ||
      std::find(kHarmlessKeys.begin(), kHarmlessKeys.end(), std::string_view(key)) != kHarmlessKeys.end())
    return {KeyEffect::None, ""};
  for (const KeyRow& row : kRows)
    if (row.key == key && concerns(row, type)) {
      if (row.neutral.empty() || is_neutral(value, row.neutral)) return {KeyEffect::None, ""};
      if (row.what.empty()) break;
      return {KeyEffect::Changes, std::string(row.what)};
    }
  return {};
}

std::vector<std::string> unused_keys_of(const std::string& type) {
  std::vector<std::string> keys(kHarmlessKeys.begin(), kHarmlessKeys.end());
  for (const KeyRow& row : kRows)
    if (concerns(row, type)) keys.emplace_back(row.key);
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
