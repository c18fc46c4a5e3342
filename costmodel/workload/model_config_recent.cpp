// Classes of dense models from 2024 to 2026, Gemma 3n among them.
#include <algorithm>
#include <cmath>

#include "costmodel/workload/model_config_classes.hpp"

namespace panpipe {
namespace {

void read_cohere(ConfigReader& r, ModelDimensions& d) {
  reads_biases(false)(r, d);
  d.traits.logit_scale = r.number({"logit_scale"}, 0.0625);
  r.leave_out(kRotatesPairs);
}

void cohere(ConfigReader& r, ModelDimensions& d) {
  read_cohere(r, d);
  if (r.flag({"use_qk_norm"}, false)) r.error(r.find({"use_qk_norm"}), "norms of queries and keys of Cohere are not known");
}

// Windows in three of four layers, and positions in those alone.
void cohere2(ConfigReader& r, ModelDimensions& d) {
  read_cohere(r, d);
  reads_windows(4096, r.integer("", {"sliding_window_pattern"}, 1, 4))(r, d);
  d.traits.no_rotary = inverted(d.traits.windowed);
}

void olmo3(ConfigReader& r, ModelDimensions& d) {
  reads_biases(false)(r, d);
  d.traits.form = BlockForm::NormAfter;
  d.traits.query_key_norm = QueryKeyNorm::Whole;
  reads_windows(4096, 4)(r, d);
  d.traits.rotary_base = r.rotary("rope_theta", {"rope_theta"}, 5e5, "full_attention");
  d.traits.rotary_local_base = r.rotary("rope_theta", {"rope_theta"}, 5e5, "sliding_attention");
}

void stablelm(ConfigReader& r, ModelDimensions& d) {
  d.traits.query_bias = r.flag({"use_qkv_bias"}, false);
  reads_rotary_part(0.25)(r, d);
  for (const char* key : {"qk_layernorm", "use_parallel_residual"})
    if (r.flag({key}, false)) r.error(r.find({key}), fmt::format("'{}' of StableLM is not known here", key));
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
  reads_biases(false)(r, d);
  d.traits.activation = r.activation({"hidden_activation"}, Activation::GeluTanh);
  d.traits.logit_cap = r.number_or_none("final_logit_softcapping", 30);
  reads_windows(512, 5)(r, d);
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

std::vector<ConfigClass> recent_classes() {
  using F = FamilyTraits;
  using T = TransformerTraits;
  return {
      model_class("seed_oss", "SeedOss", {155136, 4096, 64, 80, 8, 128, 27648, 524288, 1e-6}, &F::llama, reads_query_bias(true),
                  reads_flag("attention_out_bias", false, &T::output_bias), reads_flag("mlp_bias", false, &T::mlp_bias)),
      model_class("ministral", "Ministral", {32000, 4096, 32, 32, 8, 0, 14336, 131072, 1e-6}, &F::llama, reads_windows(4096, 0)),
      model_class("ministral3", "Ministral3", {131072, 4096, 34, 32, 8, 128, 14336, 262144, 1e-5, false, 1e6}, &F::llama,
                  reads_window(0), leaves_out("the scale of its queries by position")),
      model_class("helium", "Helium", {48000, 2560, 24, 20, 20, 128, 7040, 4096, 1e-8, false, 1e5}, &F::llama, read_llama,
                  has(&T::output_bias, false), leaves_out(kRotatesPairs)),
      model_class("glm", "Glm", {151552, 4096, 40, 32, 2, 128, 13696, 131072, 1.5625e-7}, &F::glm, reads_query_bias(true),
                  reads_rotary_part(0.5), leaves_out(kRotatesPairs)),
      model_class("glm4", "Glm4", {151552, 4096, 40, 32, 2, 128, 13696, 131072, 1.5625e-7}, &F::glm4, reads_query_bias(true),
                  reads_rotary_part(0.5), leaves_out(kRotatesPairs)),
      model_class("ernie4_5", "Ernie4_5", {103424, 1024, 18, 16, 2, 128, 3072, 131072, 1e-5, true, 5e5}, &F::llama,
                  reads_flag("use_bias", false, &T::query_bias, &T::output_bias, &T::mlp_bias), leaves_out(kRotatesPairs)),
      model_class("hunyuan_v1_dense", "HunYuanDenseV1", {290943, 4096, 32, 32, 0, 0, 11008, 2048, 1e-5}, &F::hunyuan,
                  reads_biases(false), leaves_out(kNormsBehindRotation)),
      model_class("granite", "Granite", {32000, 4096, 32, 32, 0, 0, 11008, 2048, 1e-6}, &F::llama, read_llama, read_multipliers),
      model_class("cohere", "Cohere", {256000, 8192, 40, 64, 0, 0, 22528, 8192, 1e-5, true, 5e5}, &F::cohere, cohere),
      model_class("cohere2", "Cohere2", {256000, 8192, 40, 64, 0, 0, 22528, 8192, 1e-5, true}, &F::cohere, cohere2),
      model_class("olmo3", "Olmo3", {50304, 4096, 32, 32, 0, 0, 11008, 2048, 1e-5, false, 5e5}, &F::olmo2, olmo3),
      model_class("exaone4", "Exaone4", {102400, 4096, 32, 32, 32, 0, 16384, 2048, 1e-5}, &F::olmo2,
                  has(&T::form, BlockForm::NormAfter), has(&T::query_key_norm, QueryKeyNorm::PerHead), read_exaone_windows),
      model_class("gemma3n_text", "Gemma3n", {262400, 2048, 35, 8, 2, 256, 16384, 32768, 1e-6, true, 1e6}, &F::gemma3n, gemma3n),
      model_class("qwen2_vl_text", "Qwen2VLTextModel", {152064, 8192, 80, 64, 8, 0, 29568, 32768, 1e-5, false, 1e6}, &F::llama,
                  has(&T::query_bias, true), read_qwen_windows),
      model_class("qwen2_5_vl_text", "Qwen2_5_VLTextModel", {152064, 8192, 80, 64, 8, 0, 29568, 32768, 1e-5, false, 1e6},
                  &F::llama, has(&T::query_bias, true), read_qwen_windows),
      model_class("qwen3_vl_text", "Qwen3VLTextModel", {151936, 4096, 32, 32, 32, 128, 22016, 128000, 1e-6, false, 5e5},
                  &F::llama, read_qwen3),
      model_class("glm4v_text", "Glm4vTextModel", {151552, 4096, 40, 32, 2, 128, 13696, 32768, 1e-5}, &F::glm4,
                  reads_query_bias(true), reads_rotary_part(0.5), leaves_out(kRotatesPairs)),
      model_class("cwm", "Cwm", {128256, 6144, 64, 48, 8, 128, 21504, 131072, 1e-5, false, 1e6}, &F::llama,
                  reads_flag("mlp_bias", false, &T::mlp_bias), reads_windows(8192, 4, 1)),
      model_class("exaone", "Exaone", {102400, 4096, 32, 32, 8, 128, 14336, 4096, 1e-5, false, 5e5}, &F::llama, read_llama),
      model_class("iquestcoder", "IQuestCoder", {76800, 5120, 80, 40, 8, 128, 27648, 131072, 1e-5}, &F::llama, read_llama),
      model_class("internlm3", "InternLM3", {128512, 4096, 48, 32, 2, 128, 10240, 32768, 1e-5}, &F::llama, read_llama),
      model_class("granite_swa", "GraniteSWA", {100352, 2560, 24, 20, 4, 0, 8192, 8192, 1e-5, true}, &F::llama, read_llama,
                  read_multipliers, reads_windows(128, 4, 1), has(&T::sinks, true)),
      model_class("jais2", "Jais2", {150272, 3328, 32, 26, 26, 128, 26624, 8192, 1e-5}, &F::nemotron, reads_biases(true),
                  reads_flag("mlp_bias", true, &T::mlp_bias)),
      model_class("starcoder2", "Starcoder2", {49152, 3072, 30, 24, 2, 0, 12288, 4096, 1e-5, true}, &F::starcoder2,
                  reads_flag("use_bias", true, &T::query_bias, &T::output_bias, &T::mlp_bias), reads_window(0)),
      model_class("stablelm", "StableLm", {50304, 2560, 32, 32, 32, 0, 6912, 4096, 1e-5}, &F::stablelm, stablelm),
      model_class("nemotron", "Nemotron", {256000, 6144, 32, 48, 0, 0, 24576, 4096, 1e-5}, &F::nemotron, read_llama,
                  reads_rotary_part(0.5, {"partial_rotary_factor", "rope_percent"}),
                  leaves_out("norms that scale by 1 + weight")),
  };
}

}  // namespace panpipe
