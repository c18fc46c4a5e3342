// Classes whose layers are of several kinds: attention, and mixers with a state of fixed size.
#include <algorithm>

#include "base/text/quantity_text.hpp"
#include "costmodel/workload/bounds.hpp"
#include "costmodel/workload/model_config_classes.hpp"

namespace panpipe {
namespace {

// Heads, their features and tokens of a chunk, so that their products are no overflow.
int bounded(int count) { return std::min(count, 1 << 12); }

std::vector<Mixer> mixers_of(const std::vector<bool>& linear) {
  std::vector<Mixer> mixers;
  for (const bool is : linear) mixers.push_back(is ? Mixer::Linear : Mixer::Attention);
  return mixers;
}

// The file's list, else the class's pattern.
void read_mixers(ConfigReader& r, ModelDimensions& d, const char* word, std::vector<bool> pattern) {
  std::vector<bool> named = r.layers_named("layer_types", word, d.layers);
  d.traits.mixers = mixers_of(named.empty() ? pattern : named);
}

// --- Gated DeltaNet
void read_delta_net(ConfigReader& r, ModelDimensions& d) {
  LinearMixer& l = d.traits.linear;
  l.key_heads = bounded(r.dimension("linear_key_heads", {"linear_num_key_heads"}, 1, 16));
  l.heads = bounded(r.dimension("linear_heads", {"linear_num_value_heads"}, 1, 32));
  l.key_features = bounded(r.dimension("linear_key_features", {"linear_key_head_dim"}, 1, 128));
  l.features = bounded(r.dimension("linear_features", {"linear_value_head_dim"}, 1, 128));
  l.kernel = bounded(r.integer("", {"linear_conv_kernel_dim"}, 1, 4));
  if (l.heads % l.key_heads != 0)
    r.error(r.find({"linear_num_value_heads"}),
            fmt::format("{} key heads do not divide {} heads of values", l.key_heads, l.heads));
  reads_rotary_part(0.25)(r, d);
  reads_biases(false)(r, d);
  read_mixers(r, d, "linear_attention", inverted(every(d.layers, r.integer("", {"full_attention_interval"}, 1, 4), 0)));
}

// Kimi Linear: decays by feature, latent attention without positions.
void kimi_linear(ConfigReader& r, ModelDimensions& d) {
  read_latent_attention(r, d, {.query_rank = 0});
  LinearMixer& l = d.traits.linear;
  l.heads = l.key_heads = bounded(r.dimension("linear_heads", {"linear_num_heads"}, 1, 32));
  l.features = l.key_features = bounded(r.dimension("linear_features", {"linear_head_dim"}, 1, 128));
  l.gate_rank = l.features;
  l.kernel = bounded(r.integer("", {"linear_conv_kernel_dim"}, 1, 4));
  std::vector<bool> pattern;
  for (int i = 0; i < d.layers; ++i) pattern.push_back(i == 0 || i % 4 != 0);
  read_mixers(r, d, "linear_attention", std::move(pattern));
}

// MiniMax-01: each second layer has softmax attention; residual streams start behind the norms.
void minimax(ConfigReader& r, ModelDimensions& d) {
  LinearMixer& l = d.traits.linear;
  l.heads = l.key_heads = d.heads;
  l.features = l.key_features = features_of_head(d);
  l.chunk = bounded(r.integer("", {"block_size"}, 1, 256));
  d.traits.window = r.window("sliding_window", 0);
  read_mixers(r, d, "linear_attention", every(d.layers, 2, 0));
  read_experts(r, d, {"num_local_experts", "num_experts"}, 8, 2, {"intermediate_size"}, 14336);
  const auto factors = [&](const char* alpha, const char* beta) {
    return StreamFactors{r.number({alpha}, 1), r.number({beta}, 1)};
  };
  d.traits.attention_factors = factors("full_attn_alpha_factor", "full_attn_beta_factor");
  d.traits.linear_factors = factors("linear_attn_alpha_factor", "linear_attn_beta_factor");
  d.traits.mlp_factors = factors("mlp_alpha_factor", "mlp_beta_factor");
}

// --- Mamba 1
int read_step_rank(ConfigReader& r, const ModelDimensions& d, const char* key) {
  const Node* rank = r.find({key});
  const int own = (std::min(d.hidden, 1 << 18) + 15) / 16;
  return rank == nullptr || rank->text == "auto" ? own : bounded(r.integer("", {key}, 1, own));
}

struct ScanKeys {
  const char *expand, *state, *kernel, *rank, *convolution_bias, *bias;
};

// Each channel is a head of one feature.
void read_scan(ConfigReader& r, ModelDimensions& d, const ScanKeys& keys) {
  LinearMixer& l = d.traits.linear;
  const int expand = r.dimension("linear_expand", {keys.expand}, 1, 2);
  l.heads = std::min(expand, 64) * std::min(d.hidden, 1 << 18), l.features = 1;
  l.key_heads = 1, l.key_features = bounded(r.dimension("linear_state", {keys.state}, 1, 16));
  l.kernel = bounded(r.integer("", {keys.kernel}, 1, 4));
  l.gate_rank = read_step_rank(r, d, keys.rank);
  l.convolution_bias = r.flag({keys.convolution_bias}, true);
  l.bias = r.flag({keys.bias}, false);
}

// No layer has anything else.
void mix_alone(ModelDimensions& d) {
  d.traits.mixers.assign(d.layers, Mixer::Linear);
  d.traits.without_mlp.assign(d.layers, true);
}

void mamba(ConfigReader& r, ModelDimensions& d) {
  read_scan(r, d, {"expand", "state_size", "conv_kernel", "time_step_rank", "use_conv_bias", "use_bias"});
  d.traits.linear.norm = false;
  mix_alone(d);
}

void falcon_mamba(ConfigReader& r, ModelDimensions& d) {
  mamba(r, d);
  d.traits.linear.norm = true, d.traits.linear.norm_weights = false;
  d.traits.linear.epsilon = r.number({"mixer_rms_eps"}, 1e-6);
}

// Layers of a period at an offset.
std::vector<bool> read_period(ConfigReader& r, int layers, const char* period, int own, const char* offset, int own_offset) {
  const int step = r.integer("", {period}, 1, own), at = r.integer("", {offset}, 0, own_offset);
  std::vector<bool> chosen;
  for (int i = 0; i < layers; ++i) chosen.push_back(i % step == at);
  return chosen;
}

void jamba(ConfigReader& r, ModelDimensions& d) {
  read_scan(r, d, {"mamba_expand", "mamba_d_state", "mamba_d_conv", "mamba_dt_rank", "mamba_conv_bias", "mamba_proj_bias"});
  d.traits.mixers = mixers_of(inverted(read_period(r, d.layers, "attn_layer_period", 8, "attn_layer_offset", 4)));
  std::vector<bool> layers = read_period(r, d.layers, "expert_layer_period", 2, "expert_layer_offset", 1);
  if (const Node* count = r.find({"num_experts"}); count != nullptr && count->text == "1") {  // Jamba 2 3B: MLPs alone
    r.list("num_experts_per_tok");
    return;
  }
  Experts& e = read_experts(r, d, {"num_experts", "num_local_experts"}, 16, 2, {"intermediate_size"}, 14336);
  e.normalized = false;
  e.layers = std::move(layers);
}

// --- Mamba 2
// Two numbers, the second of which is infinity in all published files.
void read_step_limits(ConfigReader& r, LinearMixer& l) {
  const Node* limits = r.find({"time_step_limit"});
  if (limits == nullptr || limits->kind != NodeKind::Sequence || limits->items.size() != 2) return;
  l.least_step = parse_number(limits->items[0]->text).value.value_or(0);
  if (parse_number(limits->items[1]->text).value) r.leave_out("the upper limit of its steps");
}

struct StateSpaceDefaults {
  int heads = 128, features = 64, groups = 1, state = 256;
};

void read_state_space(ConfigReader& r, ModelDimensions& d, const StateSpaceDefaults& own) {
  LinearMixer& l = d.traits.linear;
  l.heads = bounded(r.dimension("linear_heads", {"mamba_n_heads", "mamba_num_heads"}, 1, own.heads));
  l.key_heads = bounded(r.dimension("linear_groups", {"mamba_n_groups", "n_groups"}, 1, own.groups));
  l.key_features = bounded(r.dimension("linear_state", {"mamba_d_state", "ssm_state_size"}, 1, own.state));
  const Node* size = r.find({"mamba_d_head", "mamba_head_dim"});
  const bool derived = size != nullptr && size->text == "auto";
  const int expand = bounded(r.integer("", {"mamba_expand", "expand"}, 1, 2));
  l.features = bounded(derived ? expand * std::min(d.hidden, 1 << 18) / l.heads
                               : r.dimension("linear_features", {"mamba_d_head", "mamba_head_dim"}, 1, own.features));
  l.kernel = bounded(r.integer("", {"mamba_d_conv", "conv_kernel"}, 1, 4));
  l.chunk = bounded(r.integer("", {"mamba_chunk_size", "chunk_size"}, 1, 256));
  l.convolution_bias = r.flag({"mamba_conv_bias", "use_conv_bias"}, true);
  l.bias = r.flag({"mamba_proj_bias"}, false);
  read_step_limits(r, l);
  if (l.heads % l.key_heads != 0)
    r.error(size, fmt::format("{} groups do not divide {} heads of the linear layers", l.key_heads, l.heads));
}

void bamba(ConfigReader& r, ModelDimensions& d) {
  read_llama(r, d);
  reads_rotary_part(0.5)(r, d);
  read_state_space(r, d, {});
  read_mixers(r, d, "linear_attention", all_but(d.layers, r.list("attn_layer_indices")));
}

void granitemoehybrid(ConfigReader& r, ModelDimensions& d) {
  reads_biases(false)(r, d);
  read_multipliers(r, d);
  if (r.text({"position_embedding_type"}, "none") != "rope") d.traits.positions = Positions::None;
  read_state_space(r, d, {});
  std::vector<bool> attends = r.layers_named("layer_types", "attention", d.layers);  // "mamba" and "attention" in published files
  const std::vector<bool> newer = r.layers_named("layer_types", "full_attention", d.layers);
  for (std::size_t i = 0; i < attends.size(); ++i) attends[i] = attends[i] || newer[i];
  d.traits.mixers = mixers_of(attends.empty() ? std::vector<bool>(d.layers, true) : inverted(attends));
  const int shared = r.dimension("shared_expert_ffn", {"shared_intermediate_size"}, 1, 1024);
  const Node* count = r.find({"num_local_experts"});
  if (count != nullptr && count->text == "0") {  // Granite 4 H Micro: the shared MLP alone
    d.ffn = shared;
    r.list("num_experts_per_tok");
    return;
  }
  read_experts(r, d, {"num_local_experts", "num_experts"}, 8, 2, {"intermediate_size"}, 11008).shared_ffn = shared;
}

// Attention and Mamba 2 next to each other in every layer; multipliers everywhere, which cost a kernel's operands nothing.
void falcon_h1(ConfigReader& r, ModelDimensions& d) {
  read_llama(r, d);
  read_state_space(r, d, {.features = 8});
  LinearMixer& l = d.traits.linear;
  const int inner = r.dimension("linear_inner", {"mamba_d_ssm"}, 1, 1024);
  if (inner != l.heads * l.features) l.features = bounded(std::max(1, inner / l.heads));
  l.norm = r.flag({"mamba_rms_norm"}, false);
  d.traits.mixers.assign(d.layers, Mixer::Both);
  d.traits.embedding_scale = r.number({"embedding_multiplier"}, 1);
  d.traits.logit_scale = r.number({"lm_head_multiplier"}, 1);
  r.leave_out("the multipliers of its parts");
}

void mamba2(ConfigReader& r, ModelDimensions& d) {
  LinearMixer& l = d.traits.linear;
  l.heads = bounded(r.dimension("linear_heads", {"num_heads"}, 1, 128));
  l.features = bounded(r.dimension("linear_features", {"head_dim"}, 1, 64));
  l.key_heads = bounded(r.dimension("linear_groups", {"n_groups"}, 1, 8));
  l.key_features = bounded(r.dimension("linear_state", {"state_size"}, 1, 128));
  l.kernel = bounded(r.integer("", {"conv_kernel"}, 1, 4));
  l.chunk = bounded(r.integer("", {"chunk_size"}, 1, 256));
  l.convolution_bias = r.flag({"use_conv_bias"}, true);
  l.bias = r.flag({"use_bias"}, false);
  read_step_limits(r, l);
  mix_alone(d);
}

// Nemotron-H and Nemotron 3: a layer is one of four kinds. "M-E*" or a list of words.
std::vector<char> nemotron_kinds(ConfigReader& r, const ModelDimensions& d) {
  std::vector<char> kinds;
  if (const Node* pattern = r.find({"hybrid_override_pattern"}); pattern != nullptr) {
    for (const char c : pattern->text) kinds.push_back(c);
  } else if (const Node* list = r.find({"layers_block_type", "layer_types"}); list != nullptr) {
    for (const auto& item : list->items) {
      const std::string& word = item->text;
      kinds.push_back(word == "moe" ? 'E' : word == "mlp" ? '-' : word == "mamba" || word == "linear_attention" ? 'M' : '*');
    }
  } else {
    r.assume("layers of the four kinds in turn, as in NemotronHConfig: the file lists none");
    for (int i = 0; i < d.layers; ++i) kinds.push_back("ME*-"[i % 4]);
  }
  return kinds;
}

void nemotron_h(ConfigReader& r, ModelDimensions& d) {
  const std::vector<char> kinds = nemotron_kinds(r, d);
  if (kinds.empty() || kinds.size() > static_cast<std::size_t>(kMostLayers)) {
    r.error(r.find({"hybrid_override_pattern", "layers_block_type", "layer_types"}),
            fmt::format("{} layers are listed: they are 1 to {}", kinds.size(), kMostLayers));
    return;
  }
  d.layers = static_cast<int>(kinds.size());
  d.traits.output_bias = d.traits.query_bias = r.flag({"attention_bias"}, false);
  d.traits.mlp_bias = r.flag({"mlp_bias"}, false);
  d.traits.window = r.window("sliding_window", 0);
  read_state_space(r, d, {.groups = 8, .state = 128});
  d.traits.linear.chunk = bounded(r.integer("", {"mamba_chunk_size", "chunk_size"}, 1, 128));
  d.traits.linear.least_step = r.number({"time_step_min"}, 0.001);
  bool experts = false;
  for (const char kind : kinds) {
    if (kind != 'M' && kind != 'E' && kind != '*' && kind != '-')
      r.error(r.find({"hybrid_override_pattern"}), fmt::format("'{}' is no kind of layer", kind), "known are M, E, * and -");
    experts |= kind == 'E';
    d.traits.mixers.push_back(kind == 'M' ? Mixer::Linear : kind == '*' ? Mixer::Attention : Mixer::None);
    d.traits.without_mlp.push_back(kind == 'M' || kind == '*');
    d.traits.experts.layers.push_back(kind == 'E');
  }
  Experts layers = d.traits.experts;
  reads_corrected_experts(8, 2, 7688, 1, 0)(r, d);
  Experts& e = d.traits.experts;
  e.layers = layers.layers;
  e.shared_ffn = r.dimension("shared_expert_ffn", {"moe_shared_expert_intermediate_size"}, 0, 7688);
  e.latent = r.find({"moe_latent_size"}) != nullptr ? r.integer("", {"moe_latent_size"}, 1, 1) : 0;
  if (!experts) e = {};
  if (r.integer("", {"num_nextn_predict_layers"}, 0, 0) > 0)
    r.assume("layers that predict further tokens (num_nextn_predict_layers) are left out, as transformers does");
}

// --- LFM2: short convolutions
void read_short_convolutions(ConfigReader& r, ModelDimensions& d, std::vector<bool> pattern) {
  d.traits.linear.kernel = r.integer("", {"conv_L_cache"}, 1, 3);
  d.traits.linear.bias = d.traits.linear.convolution_bias = r.flag({"conv_bias"}, false);
  d.tied_embedding = r.flag({"tie_embedding", "tie_word_embeddings"}, true);
  read_mixers(r, d, "conv", std::move(pattern));
}

void lfm2(ConfigReader& r, ModelDimensions& d) {
  std::vector<bool> linear(d.layers, r.find({"full_attn_idxs"}) != nullptr);
  for (const int i : r.list("full_attn_idxs"))
    if (i < d.layers) linear[i] = false;
  read_short_convolutions(r, d, std::move(linear));
  d.ffn = r.integer("ffn", {"block_ff_dim", "intermediate_size"}, 1, 12288);
  const int multiple = r.integer("", {"block_multiple_of"}, 1, 256);
  const double factor = r.number({"block_ffn_dim_multiplier"}, 1);
  if (!r.flag({"block_auto_adjust_ff_dim"}, true)) return;
  const int narrow = static_cast<int>(factor * static_cast<int>(2.0 * d.ffn / 3));
  d.ffn = (narrow + multiple - 1) / multiple * multiple;
}

void lfm2_moe(ConfigReader& r, ModelDimensions& d) {
  read_short_convolutions(r, d, std::vector<bool>(d.layers, false));
  Experts& e = read_experts(r, d, {"num_experts"}, 32, 4, {"moe_intermediate_size"}, 1792);
  e.sigmoid = true;
  e.correction = r.flag({"use_expert_bias"}, true);
  e.normalized = r.flag({"norm_topk_prob"}, true);
  e.scale = r.number({"routed_scaling_factor"}, 1);
  e.layers = from_layer(d.layers, r.integer("dense_layers", {"num_dense_layers"}, 0, 2));
}

}  // namespace

std::vector<ConfigClass> hybrid_classes() {
  using F = FamilyTraits;
  return {
      model_class("qwen3_next", "Qwen3Next", {151936, 2048, 48, 16, 2, 256, 5632, 32768, 1e-6}, &F::qwen3_next, read_delta_net,
                  reads_experts({"num_experts", "num_local_experts"}, 512, 10, {"moe_intermediate_size"}, 512),
                  reads_gated_expert(512, true), read_sparse_layers),
      model_class("qwen3_5_text", "Qwen3_5", {248320, 4096, 32, 16, 4, 256, 12288, 32768, 1e-6}, &F::qwen3_5, read_delta_net),
      model_class("qwen3_5_moe_text", "Qwen3_5Moe", {248320, 2048, 40, 16, 2, 256, 5632, 32768, 1e-6}, &F::qwen3_5,
                  read_delta_net, reads_experts({"num_experts", "num_local_experts"}, 256, 8, {"moe_intermediate_size"}, 512),
                  reads_gated_expert(512, true), read_sparse_layers),
      model_class("kimi_linear", "KimiLinear", {163840, 2304, 27, 32, 0, 0, 9216, 1048576, 1e-5}, &F::kimi_linear, kimi_linear,
                  reads_corrected_experts(256, 8, 1024, 1, 1), reads_expert_scale("routed_scaling_factor", 2.446)),
      model_class("minimax", "MiniMax", {32000, 4096, 32, 32, 8, 0, 14336, 131072, 1e-5, false, 1e6}, &F::minimax, minimax),
      model_class("granitemoehybrid", "GraniteMoeHybrid", {32000, 4096, 32, 32, 0, 0, 11008, 2048, 1e-6}, &F::granite_hybrid,
                  granitemoehybrid),
      model_class("bamba", "Bamba", {128000, 4096, 32, 32, 8, 0, 14336, 262144, 1e-5}, &F::bamba, bamba),
      model_class("falcon_h1", "FalconH1", {128000, 4096, 32, 32, 8, 0, 14336, 8192, 1e-5}, &F::bamba, falcon_h1),
      model_class("nemotron_h", "NemotronH", {131072, 4096, 4, 32, 8, 128, 21504, 4096, 1e-5}, &F::nemotron_h, nemotron_h),
      model_class("mamba", "Mamba", {50280, 768, 32, 64, 64, 64, 1536, 8192, 1e-5, true}, &F::mamba, mamba),
      model_class("falcon_mamba", "FalconMamba", {50280, 768, 32, 64, 64, 64, 1536, 8192, 1e-5, true}, &F::mamba, falcon_mamba),
      model_class("jamba", "Jamba", {65536, 4096, 32, 32, 8, 0, 14336, 262144, 1e-6}, &F::jamba, jamba),
      model_class("mamba2", "Mamba2", {32768, 4096, 64, 64, 64, 64, 8192, 8192, 1e-5}, &F::mamba2, mamba2),
      model_class("lfm2", "Lfm2", {65536, 2560, 32, 32, 8, 0, 12288, 128000, 1e-5, true, 1e6}, &F::lfm2, lfm2),
      model_class("lfm2_moe", "Lfm2Moe", {65536, 2048, 32, 32, 8, 0, 7168, 128000, 1e-5, true, 1e6}, &F::lfm2, lfm2_moe),
  };
}

}  // namespace panpipe
