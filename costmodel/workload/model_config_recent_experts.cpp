// Classes with experts of 2025 and 2026.
#include <algorithm>
#include <cmath>

#include "costmodel/workload/model_config_classes.hpp"

namespace panpipe {
namespace {

void read_shared(ConfigReader& r, ModelDimensions& d, ConfigKeys keys, int fallback) {
  const long long width = static_cast<long long>(d.traits.experts.ffn) * r.dimension("shared_experts", keys, 0, fallback);
  d.traits.experts.shared_ffn = static_cast<int>(std::min<long long>(width, 1 << 30));
}

// Layers without experts come first, or a list names them.
void read_first_dense(ConfigReader& r, ModelDimensions& d, ConfigKeys keys, int fallback) {
  const int first = r.integer("dense_layers", keys, 0, fallback);
  d.traits.experts.layers = r.layers_named("mlp_layer_types", "sparse", d.layers);
  if (d.traits.experts.layers.empty())
    for (int i = 0; i < d.layers; ++i) d.traits.experts.layers.push_back(i >= first);
}

void read_grouped_choice(ConfigReader& r, ModelDimensions& d) {
  Experts& e = d.traits.experts;
  e.groups = r.integer("", {"n_group", "num_expert_group"}, 1, 1);
  e.groups_per_token = r.integer("", {"topk_group"}, 1, 1);
  if (e.groups == 1) return;
  r.assume("a token's experts may come from all groups (n_group, topk_group are left out)");
  r.leave_out("its choice of experts by groups");
}

// GLM 4.5: DeepSeek-V3's router and experts behind Llama's attention.
void glm4_moe(ConfigReader& r, ModelDimensions& d) {
  d.traits.query_bias = r.flag({"attention_bias"}, false);
  if (r.flag({"use_qk_norm"}, false)) d.traits.query_key_norm = QueryKeyNorm::PerHead;
  read_part_of_rotary(r, d, {"partial_rotary_factor"}, 0.5);
  read_corrected_experts(r, d, 128, 8, 1408, 1, 1);
  read_further_tokens(r, d, 1);
}

void sarvam_moe(ConfigReader& r, ModelDimensions& d) {
  d.traits.query_bias = r.flag({"attention_bias"}, false);
  if (r.flag({"use_qk_norm"}, true)) d.traits.query_key_norm = QueryKeyNorm::PerHead;
  read_part_of_rotary(r, d, {"partial_rotary_factor"}, 1);
  read_corrected_experts(r, d, 128, 6, 1024, 1, 1).scale = r.number({"routed_scaling_factor"}, 2.5);
  read_further_tokens(r, d, 0);
}

// Text parts of models with images.
void glm4v_moe_text(ConfigReader& r, ModelDimensions& d) {
  glm4_moe(r, d);
  d.traits.query_bias = r.flag({"attention_bias"}, true);
}

void qwen3_vl_moe_text(ConfigReader& r, ModelDimensions& d) {
  read_qwen3(r, d);
  Experts& e = read_experts(r, d, {"num_local_experts", "num_experts"}, 60, 4, {"moe_intermediate_size"}, 1408);
  e.layers = every(d.layers, r.integer("", {"decoder_sparse_step"}, 1, 1), 0);
  for (const int dense : r.list("mlp_only_layers"))
    if (dense < d.layers) e.layers[dense] = false;
}

void solar_open(ConfigReader& r, ModelDimensions& d) {
  d.traits.query_bias = r.flag({"attention_bias"}, false);
  read_part_of_rotary(r, d, {"partial_rotary_factor"}, 1);
  read_corrected_experts(r, d, 128, 8, 1280, 1, 0);
}

void dots1(ConfigReader& r, ModelDimensions& d) {
  read_biases(r, d, false);
  d.traits.query_key_norm = QueryKeyNorm::PerHead;
  read_corrected_experts(r, d, 128, 8, 1408, 0, 0);
  const int first = r.integer("", {"max_window_layers"}, 0, 62);
  std::vector<bool> pattern;
  for (int i = 0; i < d.layers; ++i) pattern.push_back(i >= first);
  read_windows(r, d, 4096, std::move(pattern));
}

void exaone_moe(ConfigReader& r, ModelDimensions& d) {
  d.traits.query_key_norm = QueryKeyNorm::PerHead;
  read_corrected_experts(r, d, 64, 8, 1024, 1, 1);
  read_exaone_windows(r, d);
}

void hy_v3(ConfigReader& r, ModelDimensions& d) {
  read_biases(r, d, false);
  d.traits.mlp_bias = r.flag({"mlp_bias"}, false);
  d.traits.query_key_norm = QueryKeyNorm::PerHead;
  read_corrected_experts(r, d, 192, 8, 1536, 1, 1);
  d.traits.experts.scale = r.number({"router_scaling_factor"}, 2.826);
}

void minimax_m2(ConfigReader& r, ModelDimensions& d) {
  d.traits.query_key_norm = r.flag({"use_qk_norm"}, true) ? QueryKeyNorm::Whole : QueryKeyNorm::None;
  const int rotary = r.integer("", {"rotary_dim"}, 0, 0);
  read_part_of_rotary(r, d, {"partial_rotary_factor"}, 1);
  if (rotary > 0 && rotary < features_of_head(d)) d.traits.rotary_features = rotary;
  Experts& e = read_experts(r, d, {"num_local_experts", "num_experts"}, 256, 8, {"intermediate_size"}, 1536);
  e.sigmoid = e.correction = true;
  if (r.flag({"use_mtp"}, false))
    r.assume("layers that predict further tokens (num_mtp_modules) are left out, as transformers does");
}

// Softmax over all experts, corrected for the choice; layers at both ends without experts.
void ernie4_5_moe(ConfigReader& r, ModelDimensions& d) {
  d.traits.query_bias = d.traits.output_bias = d.traits.mlp_bias = r.flag({"use_bias"}, false);
  Experts& e = read_experts(r, d, {"moe_num_experts", "num_experts"}, 64, 6, {"moe_intermediate_size"}, 1536,
                            {"moe_k", "num_experts_per_tok"});
  read_shared(r, d, {"moe_num_shared_experts"}, 2);
  e.correction = true;
  const int first = r.integer("", {"moe_layer_start_index"}, 0, 1), step = r.integer("", {"moe_layer_interval"}, 1, 1);
  const Node* stated = r.find({"moe_layer_end_index"});
  const int last =
      stated != nullptr && stated->text == "-1" ? d.layers - 1 : r.integer("", {"moe_layer_end_index"}, 0, d.layers - 1);
  for (int i = 0; i < d.layers; ++i) e.layers.push_back((i + 1) % step == 0 && i >= first && i <= last);
  r.leave_out("its rotation of neighbouring features");
}

void hunyuan_v1_moe(ConfigReader& r, ModelDimensions& d) {
  read_biases(r, d, false);
  Experts& e = d.traits.experts;
  e.count = r.dimension("experts", {"num_experts"}, 1, 1);
  const std::vector<int> each = r.list("moe_topk");
  e.per_token =
      each.empty() ? r.dimension("experts_per_token", {"moe_topk", "num_experts_per_tok"}, 1, 1) : std::max(1, each.front());
  if (std::any_of(each.begin(), each.end(), [&](int k) { return k != e.per_token; }))
    r.error(r.find({"moe_topk"}), "layers with different numbers of experts for a token are not known");
  e.ffn = e.shared_ffn = d.ffn;
  r.leave_out("norms of queries and keys behind their rotation");
}

void olmoe(ConfigReader& r, ModelDimensions& d) {
  read_biases(r, d, false);
  d.traits.query_key_norm = QueryKeyNorm::Whole;
  read_experts(r, d, {"num_experts", "num_local_experts"}, 64, 8, {"intermediate_size"}, 2048).normalized =
      r.flag({"norm_topk_prob"}, false);
}

void flex_olmo(ConfigReader& r, ModelDimensions& d) {
  read_biases(r, d, false);
  d.traits.form = BlockForm::NormAfter;
  d.traits.query_key_norm = QueryKeyNorm::Whole;
  read_experts(r, d, {"num_experts", "num_local_experts"}, 7, 5, {"intermediate_size"}, 11008).normalized =
      r.flag({"norm_topk_prob"}, false);
}

void granitemoe(ConfigReader& r, ModelDimensions& d) {
  read_biases(r, d, false);
  read_multipliers(r, d);
  read_experts(r, d, {"num_local_experts", "num_experts"}, 8, 2, {"intermediate_size"}, 11008);
}

void granitemoeshared(ConfigReader& r, ModelDimensions& d) {
  granitemoe(r, d);
  d.traits.experts.shared_ffn = r.dimension("shared_expert_ffn", {"shared_intermediate_size"}, 0, 0);
}

void phimoe(ConfigReader& r, ModelDimensions& d) {
  read_biases(r, d, false);
  d.traits.head_bias = r.flag({"lm_head_bias"}, false);
  d.traits.window = r.window("sliding_window", 0);
  read_experts(r, d, {"num_local_experts", "num_experts"}, 16, 2, {"intermediate_size"}, 6400);
  r.leave_out("its choice of one expert after the other, and noise in front of it");
}

// As many pairs as in chunks of so many tokens: w / s (1 - w / 2s) = c / 2s.
int window_like_chunks(int chunk, int tokens) {
  return chunk <= 0 || chunk >= tokens ? 0 : static_cast<int>(std::lround(tokens * (1 - std::sqrt(1 - 1.0 * chunk / tokens))));
}

// Positions in three of four layers, which attend within chunks of the sequence.
void llama4(ConfigReader& r, ModelDimensions& d) {
  read_biases(r, d, false);
  const std::vector<int> listed = r.list("no_rope_layers");
  d.traits.no_rotary = every(d.layers, r.integer("", {"no_rope_layer_interval"}, 1, 4), 0);
  for (std::size_t i = 0; i < std::min(listed.size(), d.traits.no_rotary.size()); ++i) d.traits.no_rotary[i] = listed[i] == 0;
  if (r.flag({"use_qk_norm"}, true)) d.traits.query_key_norm = QueryKeyNorm::Unweighted;
  const int chunk = r.window("attention_chunk_size", 8192);
  d.traits.window = window_like_chunks(chunk, d.sequence);
  d.traits.windowed = r.layers_named("layer_types", "chunked_attention", d.layers);
  if (d.traits.windowed.empty()) d.traits.windowed = inverted(d.traits.no_rotary);
  if (d.traits.window > 0)
    r.assume(fmt::format("attention in chunks of {} tokens counts as a window of {}, which has as many pairs", chunk,
                         d.traits.window));
  Experts& e = read_experts(r, d, {"num_local_experts", "num_experts"}, 16, 1, {"intermediate_size"}, 8192);
  d.ffn = r.dimension("ffn", {"intermediate_size_mlp"}, 1, 16384);
  e.shared_ffn = e.ffn;
  e.sigmoid = e.transposed = true;
  e.normalized = false;
  const int step = r.integer("", {"interleave_moe_layer_step"}, 0, 1);
  e.layers = every(d.layers, step, 0);
  if (const std::vector<int> named = r.list("moe_layers"); !named.empty())
    for (int i = 0; i < d.layers; ++i) e.layers[i] = std::find(named.begin(), named.end(), i) != named.end();
  r.leave_out("its chunks, temperatures and factors of what experts read");
}

// Sandwich norms, a gate behind the attention, windows with positions and none without.
void afmoe(ConfigReader& r, ModelDimensions& d) {
  read_biases(r, d, false);
  d.traits.scaled_embedding = r.flag({"mup_enabled"}, false);
  Experts& e = read_experts(r, d, {"num_experts", "num_local_experts"}, 64, 6, {"moe_intermediate_size"}, 1408);
  read_shared(r, d, {"num_shared_experts"}, 2);
  e.sigmoid = e.correction = true;
  e.normalized = r.flag({"route_norm"}, true);
  e.scale = r.number({"route_scale"}, 1);
  read_first_dense(r, d, {"num_dense_layers"}, 1);
  read_windows(r, d, 1024, inverted(every(d.layers, r.integer("", {"global_attn_every_n_layers"}, 1, 4), 0)));
  d.traits.no_rotary = inverted(d.traits.windowed);
}

// DeepSeek-V3.2 and GLM 5: DeepSeek-V3 with an indexer.
void indexed(ConfigReader& r, ModelDimensions& d, int heads) {
  KeyIndex& k = d.traits.index;
  k.heads = std::min(r.dimension("index_heads", {"index_n_heads"}, 1, heads), 1 << 12);
  k.features = std::min(r.dimension("index_features", {"index_head_dim"}, 1, 128), 1 << 12);
  k.keys = r.dimension("keys_per_query", {"index_topk"}, 1, 2048);
  const std::vector<bool> full = r.layers_named("indexer_types", "full", d.layers);
  const int step = r.integer("", {"index_topk_freq"}, 1, 1), offset = r.integer("", {"index_skip_topk_offset"}, 0, 2);
  if (!full.empty())
    k.shared = inverted(full);
  else if (step > 1)
    for (int i = 0; i < d.layers; ++i) k.shared.push_back(std::max(i - offset + 1, 0) % step != 0);
  if (d.sequence > k.keys)
    r.assume(
        fmt::format("a query attends to {} keys, at the cost of as many pairs as a window has; the indexer trains, its own loss "
                    "is left out",
                    k.keys));
}

void deepseek_v32(ConfigReader& r, ModelDimensions& d) {
  read_deepseek(r, d,
                {.dense = 3, .routed = 256, .shared = 1, .per_token = 8, .width = 2048, .groups = 8, .groups_per_token = 4});
  indexed(r, d, 64);
  read_further_tokens(r, d, 0);
}

void glm_moe_dsa(ConfigReader& r, ModelDimensions& d) {
  read_deepseek(
      r, d,
      {.dense = 3, .routed = 256, .shared = 1, .per_token = 8, .width = 2048, .query_rank = 2048, .plain = 192, .value = 256});
  indexed(r, d, 32);
  read_further_tokens(r, d, 0);
}

// GLM 4.7 Flash
void glm4_moe_lite(ConfigReader& r, ModelDimensions& d) {
  read_deepseek(r, d,
                {.dense = 1,
                 .routed = 64,
                 .shared = 1,
                 .per_token = 4,
                 .width = 1536,
                 .query_rank = 768,
                 .plain = 192,
                 .value = 256,
                 .scale = 1.8});
  read_further_tokens(r, d, 0);
}

// DeepSeek-V3 with other numbers.
void kimi_k2(ConfigReader& r, ModelDimensions& d) {
  read_deepseek(r, d, {.dense = 1, .routed = 384, .shared = 1, .per_token = 8, .width = 2048, .scale = 2.827});
  read_further_tokens(r, d, 0);
}

}  // namespace

// A choice by corrected scores of the logistic function.
Experts& read_corrected_experts(ConfigReader& r, ModelDimensions& d, int count, int per_token, int width, int shared, int dense) {
  Experts& e = read_experts(r, d, {"n_routed_experts", "num_experts", "num_local_experts"}, count, per_token,
                            {"moe_intermediate_size"}, width, {"num_experts_per_tok", "num_experts_per_token"});
  read_shared(r, d, {"n_shared_experts", "num_shared_experts"}, shared);
  e.sigmoid = e.correction = true;
  e.normalized = r.flag({"norm_topk_prob", "moe_renormalize"}, true);
  e.scale = r.number({"routed_scaling_factor"}, 1);
  read_grouped_choice(r, d);
  read_first_dense(r, d, {"first_k_dense_replace"}, dense);
  return e;
}

std::vector<ConfigClass> recent_expert_classes() {
  using F = FamilyTraits;
  return {
      {"kimi_k2", "DeepseekV3ForCausalLM", {163840, 7168, 61, 64, 0, 0, 18432, 131072, 1e-6, false, 5e4}, &F::experts, kimi_k2},
      {"deepseek_v32", "DeepseekV32ForCausalLM", {129280, 7168, 61, 128, 0, 0, 18432, 163840, 1e-6}, &F::experts, deepseek_v32},
      {"glm_moe_dsa", "GlmMoeDsaForCausalLM", {154880, 6144, 78, 64, 0, 0, 12288, 202752, 1e-5}, &F::experts, glm_moe_dsa},
      {"glm4_moe_lite", "Glm4MoeLiteForCausalLM", {154880, 2048, 47, 20, 0, 0, 10240, 202752, 1e-5}, &F::experts, glm4_moe_lite},
      // The head of GLM 4.5, which its files state; the class would take 4096 / 96.
      {"sarvam_moe",
       "SarvamMoEForCausalLM",
       {262144, 4096, 19, 64, 4, 64, 8192, 131072, 1e-6, false, 8e6},
       &F::experts,
       sarvam_moe},
      {"glm4v_moe_text", "Glm4vMoeTextModel", {151424, 4096, 46, 96, 8, 128, 10944, 65536, 1e-5}, &F::experts, glm4v_moe_text},
      {"qwen3_vl_moe_text",
       "Qwen3VLMoeTextModel",
       {151936, 2048, 24, 16, 16, 128, 5632, 128000, 1e-6, true, 5e5},
       &F::experts,
       qwen3_vl_moe_text},
      {"glm4_moe", "Glm4MoeForCausalLM", {151552, 4096, 46, 96, 8, 128, 10944, 131072, 1e-5}, &F::experts, glm4_moe},
      {"minimax_m2",
       "MiniMaxM2ForCausalLM",
       {200064, 3072, 62, 48, 8, 128, 1536, 196608, 1e-6, false, 5e6},
       &F::experts,
       minimax_m2},
      {"llama4_text", "Llama4ForCausalLM", {202048, 5120, 48, 40, 8, 128, 8192, 131072, 1e-5, false, 5e5}, &F::llama4, llama4},
      {"ernie4_5_moe",
       "Ernie4_5_MoeForCausalLM",
       {103424, 2560, 28, 20, 4, 0, 12288, 131072, 1e-5, true, 5e5},
       &F::experts,
       ernie4_5_moe},
      {"hunyuan_v1_moe",
       "HunYuanMoEV1ForCausalLM",
       {290943, 4096, 32, 32, 0, 0, 11008, 2048, 1e-5},
       &F::hunyuan_experts,
       hunyuan_v1_moe},
      {"hy_v3", "HYV3ForCausalLM", {120832, 4096, 80, 64, 8, 128, 13312, 131072, 1e-5, false, 11158840}, &F::experts, hy_v3},
      {"dots1", "Dots1ForCausalLM", {152064, 4608, 62, 32, 32, 0, 10944, 2048, 1e-6}, &F::experts, dots1},
      {"solar_open",
       "SolarOpenForCausalLM",
       {196608, 4096, 48, 64, 8, 128, 10240, 131072, 1e-5, false, 1e6},
       &F::experts,
       solar_open},
      {"exaone_moe", "ExaoneMoeForCausalLM", {102400, 4096, 32, 32, 32, 0, 16384, 2048, 1e-5}, &F::experts, exaone_moe},
      {"afmoe", "AfmoeForCausalLM", {200192, 2048, 32, 16, 16, 128, 6144, 16384, 1e-5}, &F::afmoe, afmoe},
      {"olmoe", "OlmoeForCausalLM", {50304, 2048, 16, 16, 16, 0, 2048, 4096, 1e-5}, &F::experts, olmoe},
      {"flex_olmo", "FlexOlmoForCausalLM", {100352, 4096, 32, 32, 0, 0, 11008, 4096, 1e-6, false, 5e5}, &F::flex_olmo, flex_olmo},
      {"granitemoe", "GraniteMoeForCausalLM", {32000, 4096, 32, 32, 0, 0, 11008, 2048, 1e-6}, &F::granite_experts, granitemoe},
      {"granitemoeshared",
       "GraniteMoeSharedForCausalLM",
       {32000, 4096, 32, 32, 0, 0, 11008, 2048, 1e-6},
       &F::granite_experts,
       granitemoeshared},
      {"phimoe", "PhimoeForCausalLM", {32064, 4096, 32, 32, 8, 0, 6400, 131072, 1e-5, false, 1e6}, &F::phi_experts, phimoe},
  };
}

}  // namespace panpipe
