// Classes with experts up to GPT-OSS.
#include <algorithm>

#include "costmodel/workload/bounds.hpp"
#include "costmodel/workload/model_config_classes.hpp"

namespace panpipe {
namespace {

constexpr int kMostHeadFeatures = 1 << 14;  // of a latent head's parts, so that their sum is no overflow

void mixtral(ConfigReader& r, ModelDimensions& d) {
  read_experts(r, d, {"num_local_experts", "num_experts"}, 8, 2, {"intermediate_size"}, 14336);
  d.traits.window = r.window("sliding_window", 0);
}

// Layers without experts by a list or by steps.
void sparse_layers(ConfigReader& r, ModelDimensions& d) {
  const int step = r.integer("", {"decoder_sparse_step"}, 1, 1);
  d.traits.experts.layers = every(d.layers, step, 0);
  for (const int dense : r.list("mlp_only_layers"))
    if (dense < d.layers) d.traits.experts.layers[dense] = false;
}

void qwen2_moe(ConfigReader& r, ModelDimensions& d) {
  d.traits.query_bias = r.flag({"qkv_bias"}, true);
  read_qwen_windows(r, d);
  Experts& e = read_experts(r, d, {"num_experts"}, 60, 4, {"moe_intermediate_size"}, 1408);
  e.shared_ffn = r.dimension("shared_expert_ffn", {"shared_expert_intermediate_size"}, 0, 5632);
  e.shared_gate = true;
  e.normalized = r.flag({"norm_topk_prob"}, false);
  sparse_layers(r, d);
}

void qwen3_moe(ConfigReader& r, ModelDimensions& d) {
  read_qwen3(r, d);
  read_experts(r, d, {"num_experts", "num_local_experts"}, 128, 8, {"moe_intermediate_size"}, 768).normalized =
      r.flag({"norm_topk_prob"}, false);
  sparse_layers(r, d);
}

void deepseek_v2(ConfigReader& r, ModelDimensions& d) {
  read_deepseek(r, d, {.dense = 0, .routed = 64, .shared = 2, .per_token = 0, .width = 1407, .sigmoid = false, .scale = 1});
  if (d.traits.experts.per_token == 0) r.error(nullptr, "'num_experts_per_tok' is missing, and its class has no default");
  d.traits.experts.per_token = std::max(1, d.traits.experts.per_token);
}

void deepseek_v3(ConfigReader& r, ModelDimensions& d) {
  read_deepseek(r, d,
                {.dense = 3, .routed = 256, .shared = 1, .per_token = 8, .width = 2048, .groups = 8, .groups_per_token = 4});
  read_further_tokens(r, d, 1);
}

void gpt_oss(ConfigReader& r, ModelDimensions& d) {
  read_biases(r, d, true);
  read_windows(r, d, 128, every(d.layers, 2, 1));
  Experts& e = read_experts(r, d, {"num_local_experts", "num_experts"}, 128, 4, {"intermediate_size"}, 2880);
  e.router_bias = e.biases = e.transposed = true;
  e.gate_limit = r.number({"swiglu_limit"}, 7);
  e.gate_slope = r.number({"swiglu_alpha"}, 1.702);
  d.traits.sinks = true;
}

}  // namespace

void read_latent_attention(ConfigReader& r, ModelDimensions& d, const LatentDefaults& own) {
  d.traits.query_bias = d.traits.output_bias = r.flag({"attention_bias"}, false);
  LatentAttention& l = d.traits.latent;
  const bool direct = own.query_rank == 0 || (r.has("q_lora_rank") && r.find({"q_lora_rank"}) == nullptr);
  l.query_rank = direct && r.find({"q_lora_rank"}) == nullptr ? 0 : r.dimension("query_rank", {"q_lora_rank"}, 1, own.query_rank);
  l.kv_rank = r.dimension("kv_rank", {"kv_lora_rank"}, 1, 512);
  l.plain = std::min(r.dimension("", {"qk_nope_head_dim"}, 1, own.plain), kMostHeadFeatures);
  l.rotary = std::min(r.dimension("", {"qk_rope_head_dim"}, 2, 64), kMostHeadFeatures);
  l.value = std::min(r.dimension("", {"v_head_dim"}, 1, own.value), kMostHeadFeatures);
  d.head_size = l.plain + l.rotary;
  d.kv_heads = d.heads;
}

void read_deepseek(ConfigReader& r, ModelDimensions& d, const LatentDefaults& own) {
  read_latent_attention(r, d, own);
  r.turn_pairs(!own.sigmoid || r.flag({"rope_interleave"}, true));
  Experts& e = read_experts(r, d, {"n_routed_experts", "num_local_experts", "num_experts"}, own.routed, own.per_token,
                            {"moe_intermediate_size"}, own.width);
  const long long shared_ffn = static_cast<long long>(e.ffn) * r.dimension("shared_experts", {"n_shared_experts"}, 0, own.shared);
  e.shared_ffn = static_cast<int>(std::min<long long>(shared_ffn, 1 << 30));
  e.normalized = r.flag({"norm_topk_prob"}, own.sigmoid);
  e.sigmoid = e.correction = own.sigmoid;
  e.scale = r.number({"routed_scaling_factor"}, own.scale);
  e.groups = r.integer("", {"n_group"}, 1, own.groups);
  e.groups_per_token = r.integer("", {"topk_group"}, 1, own.groups_per_token);
  if (e.groups > 1) {
    r.assume("a token's experts may come from all groups (n_group, topk_group are left out)");
    r.leave_out("its choice of experts by groups");
  }
  const int first = r.dimension("dense_layers", {"first_k_dense_replace"}, 0, own.dense);
  const int step = r.integer("", {"moe_layer_freq"}, 1, 1);
  e.layers = r.layers_named("mlp_layer_types", "sparse", d.layers);
  if (e.layers.empty())
    for (int i = 0; i < d.layers; ++i) e.layers.push_back(i >= first && i % step == 0);
}

std::vector<ConfigClass> expert_classes() {
  using F = FamilyTraits;
  return {
      {"mixtral", "MixtralForCausalLM", {32000, 4096, 32, 32, 8, 0, 14336, 131072, 1e-5, false, 1e6}, &F::experts, mixtral},
      {"qwen2_moe", "Qwen2MoeForCausalLM", {151936, 2048, 24, 16, 16, 0, 5632, 32768, 1e-6}, &F::qwen2_experts, qwen2_moe},
      {"qwen3_moe", "Qwen3MoeForCausalLM", {151936, 2048, 24, 32, 4, 0, 6144, 32768, 1e-6}, &F::experts, qwen3_moe},
      {"deepseek_v2", "DeepseekV2ForCausalLM", {102400, 4096, 32, 32, 0, 0, 11008, 2048, 1e-6}, &F::experts, deepseek_v2},
      {"deepseek_v3", "DeepseekV3ForCausalLM", {129280, 7168, 61, 128, 0, 0, 18432, 4096, 1e-6}, &F::experts, deepseek_v3},
      {"gpt_oss", "GptOssForCausalLM", {201088, 2880, 36, 64, 8, 64, 2880, 131072, 1e-5, false, 1.5e5}, &F::gpt_oss, gpt_oss},
  };
}

}  // namespace panpipe
