// Classes with experts of 2025 and 2026.
#include <algorithm>
#include <cmath>

#include "costmodel/workload/model_config_classes.hpp"

namespace panpipe {
namespace {

void minimax_m2(ConfigReader& r, ModelDimensions& d) {
  d.traits.query_key_norm = r.flag({"use_qk_norm"}, true) ? QueryKeyNorm::Whole : QueryKeyNorm::None;
  const int rotary = r.integer("", {"rotary_dim"}, 0, 0);
  reads_rotary_part(1)(r, d);
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
  read_shared_experts(r, d, {"moe_num_shared_experts"}, 2);
  e.correction = true;
  const int first = r.integer("", {"moe_layer_start_index"}, 0, 1), step = r.integer("", {"moe_layer_interval"}, 1, 1);
  const Node* stated = r.find({"moe_layer_end_index"});
  const int last =
      stated != nullptr && stated->text == "-1" ? d.layers - 1 : r.integer("", {"moe_layer_end_index"}, 0, d.layers - 1);
  for (int i = 0; i < d.layers; ++i) e.layers.push_back((i + 1) % step == 0 && i >= first && i <= last);
  r.leave_out(kRotatesPairs);
}

void hunyuan_v1_moe(ConfigReader& r, ModelDimensions& d) {
  reads_biases(false)(r, d);
  Experts& e = d.traits.experts;
  e.count = r.dimension("experts", {"num_experts"}, 1, 1);
  const std::vector<int> each = r.list("moe_topk");
  e.per_token =
      each.empty() ? r.dimension("experts_per_token", {"moe_topk", "num_experts_per_tok"}, 1, 1) : std::max(1, each.front());
  if (std::any_of(each.begin(), each.end(), [&](int k) { return k != e.per_token; }))
    r.error(r.find({"moe_topk"}), "layers with different numbers of experts for a token are not known");
  e.ffn = e.shared_ffn = d.ffn;
  r.leave_out(kNormsBehindRotation);
}

void read_shared_width(ConfigReader& r, ModelDimensions& d) {
  d.traits.experts.shared_ffn = r.dimension("shared_expert_ffn", {"shared_intermediate_size"}, 0, 0);
}

// As many pairs as in chunks of so many tokens: w / s (1 - w / 2s) = c / 2s.
int window_like_chunks(int chunk, int tokens) {
  return chunk <= 0 || chunk >= tokens ? 0 : static_cast<int>(std::lround(tokens * (1 - std::sqrt(1 - 1.0 * chunk / tokens))));
}

// Positions in three of four layers, which attend within chunks of the sequence.
void llama4(ConfigReader& r, ModelDimensions& d) {
  reads_biases(false)(r, d);
  read_no_rotary_layers(r, d);
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
  e.layers = every(d.layers, r.integer("", {"interleave_moe_layer_step"}, 0, 1), 0);
  if (const std::vector<int> named = r.list("moe_layers"); !named.empty())
    for (int i = 0; i < d.layers; ++i) e.layers[i] = std::find(named.begin(), named.end(), i) != named.end();
  r.leave_out("its chunks, temperatures and factors of what experts read");
}

// Sandwich norms, a gate behind the attention, windows with positions and none without.
void afmoe(ConfigReader& r, ModelDimensions& d) {
  reads_biases(false)(r, d);
  d.traits.scaled_embedding = r.flag({"mup_enabled"}, false);
  Experts& e = read_experts(r, d, {"num_experts", "num_local_experts"}, 64, 6, {"moe_intermediate_size"}, 1408);
  read_shared_experts(r, d, {"num_shared_experts"}, 2);
  e.sigmoid = e.correction = true;
  e.normalized = r.flag({"route_norm"}, true);
  e.scale = r.number({"route_scale"}, 1);
  read_first_dense(r, d, r.integer("dense_layers", {"num_dense_layers"}, 0, 1));
  reads_windows(1024, r.integer("", {"global_attn_every_n_layers"}, 1, 4))(r, d);
  d.traits.no_rotary = inverted(d.traits.windowed);
}

// DeepSeek-V3.2 and GLM 5: DeepSeek-V3 with an indexer.
void read_index(ConfigReader& r, ModelDimensions& d, int heads) {
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

Trait reads_index(int heads) {
  return [=](ConfigReader& r, ModelDimensions& d) { read_index(r, d, heads); };
}

}  // namespace

std::vector<ConfigClass> recent_expert_classes() {
  using F = FamilyTraits;
  using T = TransformerTraits;
  return {
      model_class("kimi_k2", "DeepseekV3", {163840, 7168, 61, 64, 0, 0, 18432, 131072, 1e-6, false, 5e4}, &F::experts,
                  reads_deepseek(1, 384, 1, 8, 2048, {.scale = 2.827}), reads_further_tokens(0)),
      model_class("deepseek_v32", "DeepseekV32", {129280, 7168, 61, 128, 0, 0, 18432, 163840, 1e-6}, &F::experts,
                  reads_deepseek(3, 256, 1, 8, 2048, {.groups = 8, .groups_per_token = 4}), reads_index(64),
                  reads_further_tokens(0)),
      model_class("glm_moe_dsa", "GlmMoeDsa", {154880, 6144, 78, 64, 0, 0, 12288, 202752, 1e-5}, &F::experts,
                  reads_deepseek(3, 256, 1, 8, 2048, {.query_rank = 2048, .plain = 192, .value = 256}), reads_index(32),
                  reads_further_tokens(0)),
      model_class("glm4_moe_lite", "Glm4MoeLite", {154880, 2048, 47, 20, 0, 0, 10240, 202752, 1e-5}, &F::experts,
                  reads_deepseek(1, 64, 1, 4, 1536, {.query_rank = 768, .plain = 192, .value = 256, .scale = 1.8}),
                  reads_further_tokens(0)),
      // The head of GLM 4.5, which its files state; the class would take 4096 / 96.
      model_class("sarvam_moe", "SarvamMoE", {262144, 4096, 19, 64, 4, 64, 8192, 131072, 1e-6, false, 8e6}, &F::experts,
                  reads_query_bias(false), reads_head_norms("use_qk_norm", true), reads_rotary_part(1),
                  reads_corrected_experts(128, 6, 1024, 1, 1), reads_expert_scale("routed_scaling_factor", 2.5),
                  reads_further_tokens(0)),
      model_class("glm4v_moe_text", "Glm4vMoeTextModel", {151424, 4096, 46, 96, 8, 128, 10944, 65536, 1e-5}, &F::experts,
                  reads_query_bias(true), reads_head_norms("use_qk_norm", false), reads_rotary_part(0.5),
                  reads_corrected_experts(128, 8, 1408, 1, 1), reads_further_tokens(1)),
      model_class("qwen3_vl_moe_text", "Qwen3VLMoeTextModel", {151936, 2048, 24, 16, 16, 128, 5632, 128000, 1e-6, true, 5e5},
                  &F::experts, read_qwen3,
                  reads_experts({"num_local_experts", "num_experts"}, 60, 4, {"moe_intermediate_size"}, 1408),
                  read_sparse_layers),
      model_class("glm4_moe", "Glm4Moe", {151552, 4096, 46, 96, 8, 128, 10944, 131072, 1e-5}, &F::experts,
                  reads_query_bias(false), reads_head_norms("use_qk_norm", false), reads_rotary_part(0.5),
                  reads_corrected_experts(128, 8, 1408, 1, 1), reads_further_tokens(1)),
      model_class("minimax_m2", "MiniMaxM2", {200064, 3072, 62, 48, 8, 128, 1536, 196608, 1e-6, false, 5e6}, &F::experts,
                  minimax_m2),
      model_class("llama4_text", "Llama4", {202048, 5120, 48, 40, 8, 128, 8192, 131072, 1e-5, false, 5e5}, &F::llama4, llama4),
      model_class("ernie4_5_moe", "Ernie4_5_Moe", {103424, 2560, 28, 20, 4, 0, 12288, 131072, 1e-5, true, 5e5}, &F::experts,
                  ernie4_5_moe),
      model_class("hunyuan_v1_moe", "HunYuanMoEV1", {290943, 4096, 32, 32, 0, 0, 11008, 2048, 1e-5}, &F::hunyuan_experts,
                  hunyuan_v1_moe),
      model_class("hy_v3", "HYV3", {120832, 4096, 80, 64, 8, 128, 13312, 131072, 1e-5, false, 11158840}, &F::experts,
                  reads_biases(false), reads_flag("mlp_bias", false, &T::mlp_bias),
                  has(&T::query_key_norm, QueryKeyNorm::PerHead), reads_corrected_experts(192, 8, 1536, 1, 1),
                  reads_expert_scale("router_scaling_factor", 2.826)),
      model_class("dots1", "Dots1", {152064, 4608, 62, 32, 32, 0, 10944, 2048, 1e-6}, &F::experts, reads_biases(false),
                  has(&T::query_key_norm, QueryKeyNorm::PerHead), reads_corrected_experts(128, 8, 1408, 0, 0),
                  reads_windows_from(62)),
      model_class("solar_open", "SolarOpen", {196608, 4096, 48, 64, 8, 128, 10240, 131072, 1e-5, false, 1e6}, &F::experts,
                  reads_query_bias(false), reads_rotary_part(1), reads_corrected_experts(128, 8, 1280, 1, 0)),
      model_class("exaone_moe", "ExaoneMoe", {102400, 4096, 32, 32, 32, 0, 16384, 2048, 1e-5}, &F::experts,
                  has(&T::query_key_norm, QueryKeyNorm::PerHead), reads_corrected_experts(64, 8, 1024, 1, 1),
                  read_exaone_windows),
      model_class("afmoe", "Afmoe", {200192, 2048, 32, 16, 16, 128, 6144, 16384, 1e-5}, &F::afmoe, afmoe),
      model_class("olmoe", "Olmoe", {50304, 2048, 16, 16, 16, 0, 2048, 4096, 1e-5}, &F::experts, reads_biases(false),
                  has(&T::query_key_norm, QueryKeyNorm::Whole),
                  reads_experts({"num_experts", "num_local_experts"}, 64, 8, {"intermediate_size"}, 2048),
                  reads_normalized_experts(false)),
      model_class("flex_olmo", "FlexOlmo", {100352, 4096, 32, 32, 0, 0, 11008, 4096, 1e-6, false, 5e5}, &F::flex_olmo,
                  reads_biases(false), has(&T::form, BlockForm::NormAfter), has(&T::query_key_norm, QueryKeyNorm::Whole),
                  reads_experts({"num_experts", "num_local_experts"}, 7, 5, {"intermediate_size"}, 11008),
                  reads_normalized_experts(false)),
      model_class("granitemoe", "GraniteMoe", {32000, 4096, 32, 32, 0, 0, 11008, 2048, 1e-6}, &F::granite_experts,
                  reads_biases(false), read_multipliers,
                  reads_experts({"num_local_experts", "num_experts"}, 8, 2, {"intermediate_size"}, 11008)),
      model_class("granitemoeshared", "GraniteMoeShared", {32000, 4096, 32, 32, 0, 0, 11008, 2048, 1e-6}, &F::granite_experts,
                  reads_biases(false), read_multipliers,
                  reads_experts({"num_local_experts", "num_experts"}, 8, 2, {"intermediate_size"}, 11008), read_shared_width),
      model_class("phimoe", "Phimoe", {32064, 4096, 32, 32, 8, 0, 6400, 131072, 1e-5, false, 1e6}, &F::phi_experts,
                  reads_biases(false), reads_flag("lm_head_bias", false, &T::head_bias), reads_window(0),
                  reads_experts({"num_local_experts", "num_experts"}, 16, 2, {"intermediate_size"}, 6400),
                  leaves_out("its choice of one expert after the other, and noise in front of it")),
  };
}

}  // namespace panpipe
