#include "costmodel/workload/model_config_classes.hpp"

#include <algorithm>

namespace panpipe {

std::vector<bool> every(int layers, int step, int at) {
  std::vector<bool> chosen;
  for (int i = 0; i < layers; ++i) chosen.push_back(step > 0 && (i + 1) % step == at);
  return chosen;
}

std::vector<bool> from_layer(int layers, int first) {
  std::vector<bool> chosen;
  for (int i = 0; i < layers; ++i) chosen.push_back(i >= first);
  return chosen;
}

std::vector<bool> all_but(int layers, const std::vector<int>& listed) {
  std::vector<bool> chosen(layers, true);
  for (const int i : listed)
    if (i < layers) chosen[i] = false;
  return chosen;
}

std::vector<bool> inverted(std::vector<bool> flags) {
  flags.flip();
  return flags;
}

void read_windows(ConfigReader& r, ModelDimensions& d, int window, std::vector<bool> pattern) {
  d.traits.window = r.window("sliding_window", window);
  std::vector<bool> named = r.layers_named("layer_types", "sliding_attention", d.layers);
  d.traits.windowed = named.empty() ? std::move(pattern) : std::move(named);
}

Trait reads_window(int fallback) {
  return [=](ConfigReader& r, ModelDimensions& d) { d.traits.window = r.window("sliding_window", fallback); };
}

Trait reads_windows(int window, int step, int at) {
  return [=](ConfigReader& r, ModelDimensions& d) { read_windows(r, d, window, inverted(every(d.layers, step, at))); };
}

Trait reads_windows_from(int fallback) {
  return [=](ConfigReader& r, ModelDimensions& d) {
    const int first = r.integer("", {"max_window_layers"}, 0, fallback);
    read_windows(r, d, 4096, from_layer(d.layers, first));
  };
}

Trait reads_biases(bool fallback) {
  return reads_flag("attention_bias", fallback, &TransformerTraits::query_bias, &TransformerTraits::output_bias);
}

Trait reads_query_bias(bool fallback) { return reads_flag("attention_bias", fallback, &TransformerTraits::query_bias); }

void read_llama(ConfigReader& r, ModelDimensions& d) {
  reads_biases(false)(r, d);
  d.traits.mlp_bias = r.flag({"mlp_bias"}, false);
}

// Qwen 2 and 3: a window only where it is switched on, from `max_window_layers` on.
void read_qwen_windows(ConfigReader& r, ModelDimensions& d) {
  if (r.flag({"use_sliding_window"}, false)) reads_windows_from(28)(r, d);
}

void read_qwen3(ConfigReader& r, ModelDimensions& d) {
  reads_biases(false)(r, d);
  d.traits.query_key_norm = QueryKeyNorm::PerHead;
  read_qwen_windows(r, d);
}

Trait reads_head_norms(const char* key, bool fallback) {
  return [=](ConfigReader& r, ModelDimensions& d) {
    if (r.flag({key}, fallback)) d.traits.query_key_norm = QueryKeyNorm::PerHead;
  };
}

Trait reads_rotary_part(double fallback, ConfigKeys keys) {
  return [=](ConfigReader& r, ModelDimensions& d) {
    const double part = r.rotary("partial_rotary_factor", keys, fallback);
    const int features = static_cast<int>(features_of_head(d) * part);
    if (part < 1 && features > 0) d.traits.rotary_features = features;
  };
}

void read_no_rotary_layers(ConfigReader& r, ModelDimensions& d) {
  std::vector<bool>& without = d.traits.no_rotary = every(d.layers, r.integer("", {"no_rope_layer_interval"}, 1, 4), 0);
  const std::vector<int> listed = r.list("no_rope_layers");
  for (std::size_t i = 0; i < std::min(listed.size(), without.size()); ++i) without[i] = listed[i] == 0;
}

Experts& read_experts(ConfigReader& r, ModelDimensions& d, ConfigKeys count, int fallback, int per_token, ConfigKeys ffn,
                      int ffn_fallback, ConfigKeys per_token_keys) {
  Experts& e = d.traits.experts;
  e.count = r.dimension("experts", count, 1, fallback);
  e.per_token = r.dimension("experts_per_token", per_token_keys, 1, per_token);
  e.ffn = r.dimension("expert_ffn", ffn, 1, ffn_fallback);
  return e;
}

Trait reads_experts(ConfigKeys count, int fallback, int per_token, ConfigKeys ffn, int ffn_fallback) {
  return [=](ConfigReader& r, ModelDimensions& d) { read_experts(r, d, count, fallback, per_token, ffn, ffn_fallback); };
}

Trait reads_normalized_experts(bool fallback) {
  return [=](ConfigReader& r, ModelDimensions& d) { d.traits.experts.normalized = r.flag({"norm_topk_prob"}, fallback); };
}

Trait reads_gated_expert(int width, bool normalized) {
  return [=](ConfigReader& r, ModelDimensions& d) {
    d.traits.experts.shared_ffn = r.dimension("shared_expert_ffn", {"shared_expert_intermediate_size"}, 0, width);
    d.traits.experts.shared_gate = true;
    reads_normalized_experts(normalized)(r, d);
  };
}

Trait reads_expert_scale(const char* key, double fallback) {
  return [=](ConfigReader& r, ModelDimensions& d) { d.traits.experts.scale = r.number({key}, fallback); };
}

void read_shared_experts(ConfigReader& r, ModelDimensions& d, ConfigKeys keys, int fallback) {
  const long long width = static_cast<long long>(d.traits.experts.ffn) * r.dimension("shared_experts", keys, 0, fallback);
  d.traits.experts.shared_ffn = static_cast<int>(std::min<long long>(width, 1 << 30));
}

void read_first_dense(ConfigReader& r, ModelDimensions& d, int first, int step) {
  std::vector<bool>& layers = d.traits.experts.layers = r.layers_named("mlp_layer_types", "sparse", d.layers);
  if (layers.empty())
    for (int i = 0; i < d.layers; ++i) layers.push_back(i >= first && i % step == 0);
}

void read_sparse_layers(ConfigReader& r, ModelDimensions& d) {
  std::vector<bool>& layers = d.traits.experts.layers = every(d.layers, r.integer("", {"decoder_sparse_step"}, 1, 1), 0);
  for (const int dense : r.list("mlp_only_layers"))
    if (dense < d.layers) layers[dense] = false;
}

static void read_grouped_choice(ConfigReader& r, Experts& e, ConfigKeys keys, int groups, int per_token) {
  e.groups = r.integer("", keys, 1, groups);
  e.groups_per_token = r.integer("", {"topk_group"}, 1, per_token);
  if (e.groups == 1) return;
  r.assume("a token's experts may come from all groups (n_group, topk_group are left out)");
  r.leave_out("its choice of experts by groups");
}

Trait reads_corrected_experts(int count, int per_token, int width, int shared, int dense) {
  return [=](ConfigReader& r, ModelDimensions& d) {
    Experts& e = read_experts(r, d, {"n_routed_experts", "num_experts", "num_local_experts"}, count, per_token,
                              {"moe_intermediate_size"}, width, {"num_experts_per_tok", "num_experts_per_token"});
    read_shared_experts(r, d, {"n_shared_experts", "num_shared_experts"}, shared);
    e.sigmoid = e.correction = true;
    e.normalized = r.flag({"norm_topk_prob", "moe_renormalize"}, true);
    e.scale = r.number({"routed_scaling_factor"}, 1);
    read_grouped_choice(r, e, {"n_group", "num_expert_group"}, 1, 1);
    read_first_dense(r, d, r.integer("dense_layers", {"first_k_dense_replace"}, 0, dense));
  };
}

void read_latent_attention(ConfigReader& r, ModelDimensions& d, const LatentDefaults& own) {
  constexpr int kMostHeadFeatures = 1 << 14;  // of a latent head's parts, so that their sum is no overflow
  reads_biases(false)(r, d);
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

Trait reads_deepseek(int dense, int routed, int shared, int per_token, int width, const LatentDefaults& own) {
  return [=](ConfigReader& r, ModelDimensions& d) {
    read_latent_attention(r, d, own);
    r.turn_pairs(!own.sigmoid || r.flag({"rope_interleave"}, true));
    Experts& e = read_experts(r, d, {"n_routed_experts", "num_local_experts", "num_experts"}, routed, per_token,
                              {"moe_intermediate_size"}, width);
    read_shared_experts(r, d, {"n_shared_experts"}, shared);
    e.normalized = r.flag({"norm_topk_prob"}, own.sigmoid);
    e.sigmoid = e.correction = own.sigmoid;
    e.scale = r.number({"routed_scaling_factor"}, own.scale);
    read_grouped_choice(r, e, {"n_group"}, own.groups, own.groups_per_token);
    const int first = r.dimension("dense_layers", {"first_k_dense_replace"}, 0, dense);
    read_first_dense(r, d, first, r.integer("", {"moe_layer_freq"}, 1, 1));
  };
}

Trait reads_further_tokens(int fallback) {
  return [=](ConfigReader& r, ModelDimensions& d) {
    const int published = r.integer("", {"num_nextn_predict_layers", "num_mtp_layers"}, 0, fallback);
    d.traits.further_tokens = std::min(r.integer("further_tokens", {"mtp_num_layers"}, 0, 0), 16);
    if (published > 0 && d.traits.further_tokens == 0)
      r.assume(
          "layers that predict further tokens (num_nextn_predict_layers) are left out, as transformers does; "
          "mtp_num_layers: N trains N of them");
  };
}

void read_multipliers(ConfigReader& r, ModelDimensions& d) {
  d.traits.embedding_scale = r.number({"embedding_multiplier"}, 1);
  d.traits.residual_scale = r.number({"residual_multiplier"}, 1);
  d.traits.logit_scale = 1 / r.number({"logits_scaling"}, 1);
  d.traits.attention_scale = r.number({"attention_multiplier"}, 1);
}

// Windows in all layers but each fourth; none, and positions everywhere, without a window.
void read_exaone_windows(ConfigReader& r, ModelDimensions& d) {
  std::vector<bool> pattern;
  if (const Node* text = r.find({"sliding_window_pattern"}); text != nullptr && text->text.find('L') != std::string::npos)
    for (int i = 0; i < d.layers; ++i) pattern.push_back(text->text[i % text->text.size()] == 'L');  // "LLLG"
  else
    pattern = inverted(every(d.layers, r.integer("", {"sliding_window_pattern"}, 0, 4), 0));
  read_windows(r, d, 4096, std::move(pattern));
  if (d.traits.window > 0) d.traits.no_rotary = inverted(d.traits.windowed);
}

void add_further_layers(ModelDimensions& d) {
  TransformerTraits& t = d.traits;
  const auto add = [&](auto& of_layers, auto kind) {
    if (of_layers.empty()) return;
    of_layers.resize(d.layers);
    of_layers.resize(d.layers + t.further_tokens, kind);
  };
  if (t.further_tokens == 0) return;
  add(t.experts.layers, true);
  add(t.mixers, Mixer::Attention);
  add(t.windowed, false);
  add(t.no_rotary, false);
  add(t.without_mlp, false);
  add(t.index.shared, false);
}

}  // namespace panpipe
