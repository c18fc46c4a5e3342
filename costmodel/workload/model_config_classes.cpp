#include "costmodel/workload/model_config_classes.hpp"

#include <algorithm>

namespace panpipe {

std::vector<bool> every(int layers, int step, int at) {
  std::vector<bool> chosen;
  for (int i = 0; i < layers; ++i) chosen.push_back(step > 0 && (i + 1) % step == at);
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

void read_biases(ConfigReader& r, ModelDimensions& d, bool fallback) {
  d.traits.query_bias = d.traits.output_bias = r.flag({"attention_bias"}, fallback);
}

void read_llama(ConfigReader& r, ModelDimensions& d) {
  read_biases(r, d, false);
  d.traits.mlp_bias = r.flag({"mlp_bias"}, false);
}

// Qwen 2 and 3: a window only where it is switched on, from `max_window_layers` on.
void read_qwen_windows(ConfigReader& r, ModelDimensions& d) {
  if (!r.flag({"use_sliding_window"}, false)) return;
  const int first = r.integer("", {"max_window_layers"}, 0, 28);
  std::vector<bool> pattern;
  for (int i = 0; i < d.layers; ++i) pattern.push_back(i >= first);
  read_windows(r, d, 4096, std::move(pattern));
}

void read_qwen3(ConfigReader& r, ModelDimensions& d) {
  read_biases(r, d, false);
  d.traits.query_key_norm = QueryKeyNorm::PerHead;
  read_qwen_windows(r, d);
}

void read_part_of_rotary(ConfigReader& r, ModelDimensions& d, ConfigKeys keys, double fallback) {
  const double part = r.rotary("partial_rotary_factor", keys, fallback);
  const int features = static_cast<int>(features_of_head(d) * part);
  if (part < 1 && features > 0) d.traits.rotary_features = features;
}

Experts& read_experts(ConfigReader& r, ModelDimensions& d, ConfigKeys count, int fallback, int per_token, ConfigKeys ffn,
                      int ffn_fallback, ConfigKeys per_token_keys) {
  Experts& e = d.traits.experts;
  e.count = r.dimension("experts", count, 1, fallback);
  e.per_token = r.dimension("experts_per_token", per_token_keys, 1, per_token);
  e.ffn = r.dimension("expert_ffn", ffn, 1, ffn_fallback);
  return e;
}

void read_further_tokens(ConfigReader& r, ModelDimensions& d, int fallback) {
  const int published = r.integer("", {"num_nextn_predict_layers", "num_mtp_layers"}, 0, fallback);
  d.traits.further_tokens = std::min(r.integer("further_tokens", {"mtp_num_layers"}, 0, 0), 16);
  if (published > 0 && d.traits.further_tokens == 0)
    r.assume(
        "layers that predict further tokens (num_nextn_predict_layers) are left out, as transformers does; mtp_num_layers: N "
        "trains "
        "N of them");
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
