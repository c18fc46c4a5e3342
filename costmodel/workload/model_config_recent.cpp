// Classes of dense models from 2024 to 2026, Gemma 3n among them.
#include <algorithm>
#include <cmath>

#include "costmodel/workload/model_config_classes.hpp"

namespace panpipe {
namespace {

constexpr const char* kPairs = "its rotation of neighbouring features";  // the model here rotates halves

void seed_oss(ConfigReader& r, ModelDimensions& d) {
  d.traits.query_bias = r.flag({"attention_bias"}, true);
  d.traits.output_bias = r.flag({"attention_out_bias"}, false);
  d.traits.mlp_bias = r.flag({"mlp_bias"}, false);
}

void ministral(ConfigReader& r, ModelDimensions& d) { read_windows(r, d, 4096, std::vector<bool>(d.layers, true)); }

void ministral3(ConfigReader& r, ModelDimensions& d) {
  d.traits.window = r.window("sliding_window", 0);
  r.leave_out("the scale of its queries by position");
}

void helium(ConfigReader& r, ModelDimensions& d) {
  read_llama(r, d);
  d.traits.output_bias = false;
  r.leave_out(kPairs);
}

// GLM 4: biases of queries, keys and values, none behind them.
void glm(ConfigReader& r, ModelDimensions& d) {
  d.traits.query_bias = r.flag({"attention_bias"}, true);
  read_part_of_rotary(r, d, {"partial_rotary_factor"}, 0.5);
  r.leave_out(kPairs);
}

void ernie(ConfigReader& r, ModelDimensions& d) {
  d.traits.query_bias = d.traits.output_bias = d.traits.mlp_bias = r.flag({"use_bias"}, false);
  r.leave_out(kPairs);
}

void hunyuan(ConfigReader& r, ModelDimensions& d) {
  read_biases(r, d, false);
  r.leave_out("norms of queries and keys behind their rotation");
}

void granite(ConfigReader& r, ModelDimensions& d) {
  read_llama(r, d);
  read_multipliers(r, d);
}

void read_cohere(ConfigReader& r, ModelDimensions& d) {
  read_biases(r, d, false);
  d.traits.logit_scale = r.number({"logit_scale"}, 0.0625);
  r.leave_out(kPairs);
}

void cohere(ConfigReader& r, ModelDimensions& d) {
  read_cohere(r, d);
  if (r.flag({"use_qk_norm"}, false)) r.error(r.find({"use_qk_norm"}), "norms of queries and keys of Cohere are not known");
}

// Windows in three of four layers, and positions in those alone.
void cohere2(ConfigReader& r, ModelDimensions& d) {
  read_cohere(r, d);
  read_windows(r, d, 4096, inverted(every(d.layers, r.integer("", {"sliding_window_pattern"}, 1, 4), 0)));
  d.traits.no_rotary = inverted(d.traits.windowed);
}

void olmo3(ConfigReader& r, ModelDimensions& d) {
  read_biases(r, d, false);
  d.traits.form = BlockForm::NormAfter;
  d.traits.query_key_norm = QueryKeyNorm::Whole;
  read_windows(r, d, 4096, inverted(every(d.layers, 4, 0)));
  d.traits.rotary_base = r.rotary("rope_theta", {"rope_theta"}, 5e5, "full_attention");
  d.traits.rotary_local_base = r.rotary("rope_theta", {"rope_theta"}, 5e5, "sliding_attention");
}

void exaone4(ConfigReader& r, ModelDimensions& d) {
  d.traits.form = BlockForm::NormAfter;
  d.traits.query_key_norm = QueryKeyNorm::PerHead;
  read_exaone_windows(r, d);
}

void starcoder2(ConfigReader& r, ModelDimensions& d) {
  d.traits.query_bias = d.traits.output_bias = d.traits.mlp_bias = r.flag({"use_bias"}, true);
  d.traits.window = r.window("sliding_window", 0);
}

void stablelm(ConfigReader& r, ModelDimensions& d) {
  d.traits.query_bias = r.flag({"use_qkv_bias"}, false);
  read_part_of_rotary(r, d, {"partial_rotary_factor"}, 0.25);
  for (const char* key : {"qk_layernorm", "use_parallel_residual"})
    if (r.flag({key}, false)) r.error(r.find({key}), fmt::format("'{}' of StableLM is not known here", key));
}

void nemotron(ConfigReader& r, ModelDimensions& d) {
  read_llama(r, d);
  read_part_of_rotary(r, d, {"partial_rotary_factor", "rope_percent"}, 0.5);
  r.leave_out("norms that scale by 1 + weight");
}

// Windows in all layers but each fourth, from the first on.
void cwm(ConfigReader& r, ModelDimensions& d) {
  d.traits.mlp_bias = r.flag({"mlp_bias"}, false);
  read_windows(r, d, 8192, inverted(every(d.layers, 4, 1)));
}

void granite_swa(ConfigReader& r, ModelDimensions& d) {
  read_llama(r, d);
  read_multipliers(r, d);
  read_windows(r, d, 128, inverted(every(d.layers, 4, 1)));
  d.traits.sinks = true;
}

void jais2(ConfigReader& r, ModelDimensions& d) {
  read_biases(r, d, true);
  d.traits.mlp_bias = r.flag({"mlp_bias"}, true);
}

// Text parts of models with images.
void qwen2_vl_text(ConfigReader& r, ModelDimensions& d) {
  d.traits.query_bias = true;
  read_qwen_windows(r, d);
}

// How many standard deviations a normal number exceeds with probability 1 - share, by Newton's steps.
double deviations_of(double share) {
  double x = 0;
  for (int i = 0; i < 50; ++i) {
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0));
    x += std::clamp((share - std::erfc(-x / std::sqrt(2.0)) / 2) / std::max(density, 1e-12), -1.0, 1.0);
  }
  return x;
}

void read_sparse_gates(ConfigReader& r, ModelDimensions& d) {
  std::vector<double> shares = r.numbers("activation_sparsity_pattern");
  constexpr int kSparse = 10;  // of the class's layers, the first
  if (shares.empty()) {
    shares.assign(d.layers, 0);
    if (d.layers > kSparse) std::fill_n(shares.begin(), kSparse, 0.95);
  }
  shares.resize(d.layers);
  if (std::all_of(shares.begin(), shares.end(), [](double share) { return share <= 0; })) return;
  for (const double share : shares) {
    if (share >= 1) r.error(r.find({"activation_sparsity_pattern"}), "shares of gates that are 0 lie below 1");
    d.traits.gate_deviations.push_back(share > 0 ? deviations_of(std::min(share, 0.999999)) : 0);
  }
}

// Gemma 3n's text part.
void gemma3n(ConfigReader& r, ModelDimensions& d) {
  read_biases(r, d, false);
  d.traits.activation = r.activation({"hidden_activation"}, Activation::GeluTanh);
  d.traits.logit_cap = r.number_or_none("final_logit_softcapping", 30);
  read_windows(r, d, 512, inverted(every(d.layers, 5, 0)));
  d.traits.rotary_base = r.rotary("rope_theta", {"rope_theta"}, 1e6, "full_attention");
  d.traits.rotary_local_base = r.rotary("rope_theta", {"rope_local_base_freq"}, 1e4, "sliding_attention");
  constexpr int kSharing = 15;  // of the class, which has layers of both kinds before them
  const int sharing = r.dimension("layers_sharing_keys", {"num_kv_shared_layers"}, 0, d.layers >= kSharing + 5 ? kSharing : 0);
  const int first = d.layers - sharing;
  const auto& windowed = d.traits.windowed;
  for (int i = std::max(0, first); sharing > 0 && i < d.layers; ++i)
    if (std::find(windowed.begin(), windowed.begin() + std::max(0, first), windowed[i]) ==
        windowed.begin() + std::max(0, first)) {
      r.error(r.find({"num_kv_shared_layers"}),
              fmt::format("layer {} shares keys with a layer of its kind, and none is before", i));
      break;
    }
  d.traits.first_sharing_keys = sharing > 0 ? first : 0;
  ResidualStreams& s = d.traits.streams;
  s.count = std::min(r.dimension("streams", {"altup_num_inputs"}, 2, 4), 64);
  s.rank = r.dimension("laurel_rank", {"laurel_rank"}, 1, 64);
  s.per_layer = std::min(r.dimension("per_layer", {"hidden_size_per_layer_input"}, 1, 256), 1 << 14);
  s.vocabulary = r.dimension("per_layer_vocabulary", {"vocab_size_per_layer_input"}, 1, 262144);
  s.scaled = r.flag({"altup_correct_scale"}, true);
  if (r.integer("", {"altup_active_idx"}, 0, 0) != 0)
    r.error(r.find({"altup_active_idx"}), "layers compute the first stream here: altup_active_idx is 0");
  if (s.vocabulary < d.vocabulary)
    r.assume(
        fmt::format("words from the {}th on, without a row of their own in the table of each layer's inputs, are not in the data",
                    s.vocabulary));
  read_sparse_gates(r, d);
}

}  // namespace

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
  if (d.traits.window == 0) return;
  d.traits.no_rotary = inverted(d.traits.windowed);
}

std::vector<ConfigClass> recent_classes() {
  using F = FamilyTraits;
  return {
      {"seed_oss", "SeedOssForCausalLM", {155136, 4096, 64, 80, 8, 128, 27648, 524288, 1e-6}, &F::llama, seed_oss},
      {"ministral", "MinistralForCausalLM", {32000, 4096, 32, 32, 8, 0, 14336, 131072, 1e-6}, &F::llama, ministral},
      {"ministral3",
       "Ministral3ForCausalLM",
       {131072, 4096, 34, 32, 8, 128, 14336, 262144, 1e-5, false, 1e6},
       &F::llama,
       ministral3},
      {"helium", "HeliumForCausalLM", {48000, 2560, 24, 20, 20, 128, 7040, 4096, 1e-8, false, 1e5}, &F::llama, helium},
      {"glm", "GlmForCausalLM", {151552, 4096, 40, 32, 2, 128, 13696, 131072, 1.5625e-7}, &F::glm, glm},
      {"glm4", "Glm4ForCausalLM", {151552, 4096, 40, 32, 2, 128, 13696, 131072, 1.5625e-7}, &F::glm4, glm},
      {"ernie4_5", "Ernie4_5ForCausalLM", {103424, 1024, 18, 16, 2, 128, 3072, 131072, 1e-5, true, 5e5}, &F::llama, ernie},
      {"hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", {290943, 4096, 32, 32, 0, 0, 11008, 2048, 1e-5}, &F::hunyuan, hunyuan},
      {"granite", "GraniteForCausalLM", {32000, 4096, 32, 32, 0, 0, 11008, 2048, 1e-6}, &F::llama, granite},
      {"cohere", "CohereForCausalLM", {256000, 8192, 40, 64, 0, 0, 22528, 8192, 1e-5, true, 5e5}, &F::cohere, cohere},
      {"cohere2", "Cohere2ForCausalLM", {256000, 8192, 40, 64, 0, 0, 22528, 8192, 1e-5, true}, &F::cohere, cohere2},
      {"olmo3", "Olmo3ForCausalLM", {50304, 4096, 32, 32, 0, 0, 11008, 2048, 1e-5, false, 5e5}, &F::olmo2, olmo3},
      {"exaone4", "Exaone4ForCausalLM", {102400, 4096, 32, 32, 32, 0, 16384, 2048, 1e-5}, &F::olmo2, exaone4},
      {"gemma3n_text", "Gemma3nForCausalLM", {262400, 2048, 35, 8, 2, 256, 16384, 32768, 1e-6, true, 1e6}, &F::gemma3n, gemma3n},
      {"qwen2_vl_text",
       "Qwen2VLTextModel",
       {152064, 8192, 80, 64, 8, 0, 29568, 32768, 1e-5, false, 1e6},
       &F::llama,
       qwen2_vl_text},
      {"qwen2_5_vl_text",
       "Qwen2_5_VLTextModel",
       {152064, 8192, 80, 64, 8, 0, 29568, 32768, 1e-5, false, 1e6},
       &F::llama,
       qwen2_vl_text},
      {"qwen3_vl_text",
       "Qwen3VLTextModel",
       {151936, 4096, 32, 32, 32, 128, 22016, 128000, 1e-6, false, 5e5},
       &F::llama,
       read_qwen3},
      {"glm4v_text", "Glm4vTextModel", {151552, 4096, 40, 32, 2, 128, 13696, 32768, 1e-5}, &F::glm4, glm},
      {"cwm", "CwmForCausalLM", {128256, 6144, 64, 48, 8, 128, 21504, 131072, 1e-5, false, 1e6}, &F::llama, cwm},
      {"exaone", "ExaoneForCausalLM", {102400, 4096, 32, 32, 8, 128, 14336, 4096, 1e-5, false, 5e5}, &F::llama, read_llama},
      {"iquestcoder", "IQuestCoderForCausalLM", {76800, 5120, 80, 40, 8, 128, 27648, 131072, 1e-5}, &F::llama, read_llama},
      {"internlm3", "InternLM3ForCausalLM", {128512, 4096, 48, 32, 2, 128, 10240, 32768, 1e-5}, &F::llama, read_llama},
      {"granite_swa", "GraniteSWAForCausalLM", {100352, 2560, 24, 20, 4, 0, 8192, 8192, 1e-5, true}, &F::llama, granite_swa},
      {"jais2", "Jais2ForCausalLM", {150272, 3328, 32, 26, 26, 128, 26624, 8192, 1e-5}, &F::nemotron, jais2},
      {"starcoder2", "Starcoder2ForCausalLM", {49152, 3072, 30, 24, 2, 0, 12288, 4096, 1e-5, true}, &F::starcoder2, starcoder2},
      {"stablelm", "StableLmForCausalLM", {50304, 2560, 32, 32, 32, 0, 6912, 4096, 1e-5}, &F::stablelm, stablelm},
      {"nemotron", "NemotronForCausalLM", {256000, 6144, 32, 48, 0, 0, 24576, 4096, 1e-5}, &F::nemotron, nemotron},
  };
}

}  // namespace panpipe
