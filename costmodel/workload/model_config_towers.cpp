// The towers of models of text and images, with the names and defaults of transformers' classes: a class is a function and a row.
#include "costmodel/workload/model_config_vision.hpp"

#include <cmath>

#include "costmodel/workload/bounds.hpp"
#include "costmodel/workload/transformer_names.hpp"

namespace panpipe {
namespace {

int bounded_side(int count) { return std::min(count, 1 << 16); }

TransformerTraits traits_of(const ModuleNames& names, NormKind norm, bool rotary, bool gated, Activation activation) {
  TransformerTraits t;
  t.names = &names;
  t.norm = norm;
  t.epsilon = norm == NormKind::Rms ? 1e-5 : 1e-6;
  t.positions = rotary ? Positions::Rotary : Positions::None;
  t.causal = false;
  t.gated = gated;
  t.activation = activation;
  return t;
}

// Widths that nearly every tower has.
void read_layers(ConfigReader& v, VisionTower& tower, const TransformerTraits& traits, const ModelDimensions& own,
                 const ConfigKeys& layers, const ConfigKeys& heads) {
  ModelDimensions& d = tower.layers;
  d.traits = traits;
  d.layers = std::min(v.dimension("vision_layers", layers, 1, own.layers), kMostLayers);
  d.hidden = std::min(v.dimension("vision_hidden", {"hidden_size"}, 1, own.hidden), kMostHidden);
  d.heads = v.dimension("vision_heads", heads, 1, own.heads);
  d.ffn = v.dimension("vision_ffn", {"intermediate_size"}, 1, own.ffn);
  if (d.hidden % d.heads != 0)
    v.error(v.find(heads), fmt::format("{} heads do not divide the {} features of the tower", d.heads, d.hidden));
}

Activation quick_gelu_too(ConfigReader& v, Activation fallback) {
  if (const Node* word = v.find({"hidden_act"}); word != nullptr && word->text == "quick_gelu") {
    v.leave_out("the activation of its tower, x times the sigmoid of 1.702 x");
    return Activation::Silu;
  }
  return v.activation({"hidden_act"}, fallback);
}

Projector::Product product(std::string name, int features, bool bias) { return {std::move(name), features, bias}; }

// --- Qwen's towers: patches of two frames, neighbouring patches of 2 x 2 to a token
void read_patches_in_time(ConfigReader& v, VisionTower& tower, int side, bool bias) {
  const int frames = std::min(v.integer("", {"temporal_patch_size"}, 1, 2), 64);
  const int colours = std::min(v.integer("", {"in_channels", "in_chans", "num_channels"}, 1, 3), 64);
  tower.pixels = frames * colours * side * side;
  tower.patch = product("model.visual.patch_embed.proj", tower.layers.hidden, bias);
  tower.layers.patch = side;
}

int read_joined(ConfigReader& v, VisionTower& tower, ConfigKeys keys) {
  const int side = std::min(v.integer("", keys, 1, 2), 64);
  tower.projector.joined = side * side;
  return side * side;
}

void fuse_projections(TransformerTraits& t, bool query_bias, bool output_bias, bool mlp_bias) {
  t.projections = FusedProjections::InTurn;
  t.query_bias = query_bias, t.output_bias = output_bias, t.mlp_bias = mlp_bias;
}

void qwen2_vl(ConfigReader&, ConfigReader& v, int /*hidden*/, VisionTower& tower) {
  TransformerTraits t = traits_of(kQwen2Tower, NormKind::Layer, true, false, quick_gelu_too(v, Activation::Silu));
  fuse_projections(t, true, true, true);
  tower.layers.traits = t;
  ModelDimensions& d = tower.layers;
  d.layers = std::min(v.dimension("vision_layers", {"depth"}, 1, 32), kMostLayers);
  d.hidden = std::min(v.dimension("vision_hidden", {"embed_dim"}, 1, 1280), kMostHidden);
  d.heads = v.dimension("vision_heads", {"num_heads"}, 1, 16);
  d.ffn = static_cast<int>(d.hidden * std::min(v.number({"mlp_ratio"}, 4), 64.0));
  read_patches_in_time(v, tower, v.integer("patch", {"patch_size"}, 1, 14), false);
  const int wide = read_joined(v, tower, {"spatial_merge_size"}) * d.hidden;
  const int out = v.dimension("vision_out", {"hidden_size"}, 1, 3584);
  tower.projector.norm = "model.visual.merger.ln_q";
  tower.projector.products = {product("model.visual.merger.mlp.0", wide, true), product("model.visual.merger.mlp.2", out, true)};
}

void qwen2_5_vl(ConfigReader&, ConfigReader& v, int /*hidden*/, VisionTower& tower) {
  TransformerTraits t = traits_of(kGatedTower, NormKind::Rms, true, true, v.activation({"hidden_act"}, Activation::Silu));
  t.epsilon = 1e-6;
  fuse_projections(t, true, true, true);
  read_layers(v, tower, t, {.layers = 32, .hidden = 3584, .heads = 16, .ffn = 3420}, {"depth"}, {"num_heads"});
  const int side = v.integer("patch", {"patch_size"}, 1, 14);
  read_patches_in_time(v, tower, side, false);
  const int wide = read_joined(v, tower, {"spatial_merge_size"}) * tower.layers.hidden;
  const int window = v.integer("", {"window_size"}, 1, 112) / std::max(side, 1);
  tower.window_of_layer.assign(tower.layers.layers, window * window);
  std::vector<int> whole = v.list("fullatt_block_indexes");
  if (v.find({"fullatt_block_indexes"}) == nullptr) whole = {7, 15, 23, 31};
  for (const int layer : whole)
    if (layer < tower.layers.layers) tower.window_of_layer[layer] = 0;
  tower.projector.norm = "model.visual.merger.ln_q";
  tower.projector.kind = NormKind::Rms;
  tower.projector.products = {
      product("model.visual.merger.mlp.0", wide, true),
      product("model.visual.merger.mlp.2", v.dimension("vision_out", {"out_hidden_size"}, 1, 3584), true)};
}

// Qwen 3 VL, and without results of earlier layers Qwen 3.5.
void qwen3_vl(ConfigReader&, ConfigReader& v, int /*hidden*/, VisionTower& tower) {
  TransformerTraits t = traits_of(kQwen3Tower, NormKind::Layer, true, false, v.activation({"hidden_act"}, Activation::GeluTanh));
  fuse_projections(t, true, true, true);
  read_layers(v, tower, t, {.layers = 27, .hidden = 1152, .heads = 16, .ffn = 4304}, {"depth"}, {"num_heads"});
  read_patches_in_time(v, tower, v.integer("patch", {"patch_size"}, 1, 16), true);
  tower.positions = "model.visual.pos_embed.weight";
  tower.position_rows = v.dimension("vision_positions", {"num_position_embeddings"}, 1, 2304);
  const int wide = read_joined(v, tower, {"spatial_merge_size"}) * tower.layers.hidden;
  const int out = v.dimension("vision_out", {"out_hidden_size"}, 1, 3584);
  tower.projector.norm = "model.visual.merger.norm";
  tower.projector.products = {product("model.visual.merger.linear_fc1", wide, true),
                              product("model.visual.merger.linear_fc2", out, true)};
}

void qwen3_vl_deep(ConfigReader& r, ConfigReader& v, int hidden, VisionTower& tower) {
  qwen3_vl(r, v, hidden, tower);
  tower.deep = v.list("deepstack_visual_indexes");
  if (v.find({"deepstack_visual_indexes"}) == nullptr) tower.deep = {8, 16, 24};
  for (const int layer : tower.deep)
    if (layer >= tower.layers.layers)
      v.error(v.find({"deepstack_visual_indexes"}),
              fmt::format("the tower has {} layers and no layer {}", tower.layers.layers, layer));
  tower.deep_projector = tower.projector;
  tower.deep_projector.norm_of_joined = true;
  tower.deep_projector.norm = "norm";
  tower.deep_projector.products[0].name = "linear_fc1", tower.deep_projector.products[1].name = "linear_fc2";
}

// --- GLM 4.1V and 4.5V: patches are joined by a product of each four
void glm4v(ConfigReader&, ConfigReader& v, int /*hidden*/, VisionTower& tower) {
  TransformerTraits t = traits_of(kGatedTower, NormKind::Rms, true, true, v.activation({"hidden_act"}, Activation::Silu));
  t.epsilon = v.number({"rms_norm_eps"}, 1e-5);
  fuse_projections(t, v.flag({"attention_bias"}, false), false, false);
  read_layers(v, tower, t, {.layers = 24, .hidden = 1536, .heads = 12, .ffn = 13696}, {"depth"}, {"num_heads"});
  const int out = v.dimension("vision_out", {"out_hidden_size"}, 1, 4096), wide = tower.layers.ffn;
  tower.layers.ffn = out;  // of the layers; the file's is the projector's
  const int side = v.integer("patch", {"patch_size"}, 1, 14), grid = v.integer("", {"image_size"}, 1, 336) / std::max(side, 1);
  read_patches_in_time(v, tower, side, true);
  tower.positions = "model.visual.embeddings.position_embedding.weight";
  tower.position_rows = bounded_side(grid) * bounded_side(grid);
  tower.norm_before = "model.visual.post_conv_layernorm", tower.norm_after = "model.visual.post_layernorm";
  read_joined(v, tower, {"spatial_merge_size"});
  tower.projector.first = product("model.visual.downsample", out, true);
  tower.projector.products = {product("model.visual.merger.proj", out, false)};
  tower.projector.gated = "model.visual.merger", tower.projector.gate_width = wide;
}

// --- Towers of separate projections, a patch of one frame
// Its side.
int read_patches(ConfigReader& v, VisionTower& tower, int own, std::string name, bool bias) {
  const int side = std::min(v.integer("patch", {"patch_size"}, 1, own), 1 << 10);
  tower.pixels = std::min(v.integer("", {"num_channels"}, 1, 3), 64) * side * side;
  tower.patch = product(std::move(name), tower.layers.hidden, bias);
  tower.layers.patch = side;
  return side;
}

int grid_of(ConfigReader& v, int side, int own) {
  return bounded_side(v.integer("", {"image_size"}, 1, own)) / std::max(side, 1);
}

// SigLIP, as Gemma 3 and PaliGemma have it.
int siglip(ConfigReader& v, VisionTower& tower, const ModelDimensions& own) {
  TransformerTraits t =
      traits_of(kSiglipTower, NormKind::Layer, false, false, v.activation({"hidden_act"}, Activation::GeluTanh));
  t.epsilon = v.number({"layer_norm_eps"}, 1e-6);
  t.query_bias = t.output_bias = t.mlp_bias = true;
  read_layers(v, tower, t, own, {"num_hidden_layers"}, {"num_attention_heads"});
  const int side = read_patches(v, tower, own.patch, "model.vision_tower.embeddings.patch_embedding", true);
  const int grid = grid_of(v, side, 224);
  tower.positions = "model.vision_tower.embeddings.position_embedding.weight";
  tower.position_rows = grid * grid;
  tower.one_size = true;
  tower.norm_after = "model.vision_tower.post_layernorm";
  if (v.flag({"vision_use_head"}, true)) v.assume("the pooling head of the tower, which nothing reads, is left out");
  return grid;
}

void gemma3(ConfigReader& r, ConfigReader& v, int hidden, VisionTower& tower) {
  const int grid = siglip(v, tower, {.layers = 12, .hidden = 768, .heads = 12, .ffn = 3072, .patch = 16});
  const int tokens = r.dimension("image_tokens", {"mm_tokens_per_image"}, 1, 256);
  const int side = static_cast<int>(std::lround(std::sqrt(tokens)));
  if (side * side != tokens || grid % std::max(side, 1) != 0)
    r.error(r.find({"mm_tokens_per_image"}),
            fmt::format("{} tokens of an image are no square whose side divides the grid of {} patches", tokens, grid));
  const int pooled = std::max(1, grid / std::max(side, 1));
  tower.projector.joined = pooled * pooled;
  tower.projector.averaged = true;
  tower.projector.norm = "model.multi_modal_projector.mm_soft_emb_norm";
  tower.projector.kind = NormKind::Rms;
  tower.projector.products = {product("model.multi_modal_projector.mm_input_projection", hidden, false)};
}

void paligemma(ConfigReader&, ConfigReader& v, int hidden, VisionTower& tower) {
  siglip(v, tower, {.layers = 27, .hidden = 1152, .heads = 16, .ffn = 4096, .patch = 14});
  tower.projector.products = {product("model.multi_modal_projector.linear", hidden, true)};
}

void llama4(ConfigReader& r, ConfigReader& v, int hidden, VisionTower& tower) {
  TransformerTraits t = traits_of(kLlama4Tower, NormKind::Layer, true, false, v.activation({"hidden_act"}, Activation::Gelu));
  t.epsilon = v.number({"norm_eps"}, 1e-5);
  t.query_bias = t.output_bias = t.mlp_bias = true;
  read_layers(v, tower, t, {.layers = 34, .hidden = 768, .heads = 16, .ffn = 5632}, {"num_hidden_layers"},
              {"num_attention_heads"});
  const int side = read_patches(v, tower, 14, "vision_model.patch_embedding.linear", false), grid = grid_of(v, side, 448);
  tower.class_token = "vision_model.class_embedding";
  tower.positions = "vision_model.positional_embedding_vlm";
  tower.position_rows = grid * grid + 1;
  tower.one_size = true;
  tower.norm_before = "vision_model.layernorm_pre", tower.norm_after = "vision_model.layernorm_post";
  const double ratio = v.number({"pixel_shuffle_ratio"}, 0.5);
  const int joined = ratio > 0 ? static_cast<int>(std::lround(1 / (ratio * ratio))) : 1;
  tower.projector.joined = std::clamp(joined, 1, 1 << 12);
  const int wide = v.dimension("vision_adapter", {"projector_input_dim"}, 1, 4096);
  const int out = v.dimension("vision_out", {"projector_output_dim"}, 1, 4096);
  const int read = v.dimension("", {"vision_output_dim"}, 1, 7680);
  if (tower.projector.joined * tower.layers.hidden != tower.layers.ffn || wide != out || out != read)
    v.error(
        v.find({"vision_output_dim"}),
        fmt::format("the adapter reads {} features and gets {} of {} patches, makes {} and {}, and the projector reads {}: these "
                    "differ",
                    tower.layers.ffn, tower.projector.joined * tower.layers.hidden, tower.projector.joined, wide, out, read));
  tower.projector.first = {};
  tower.projector.products = {product("vision_model.vision_adapter.mlp.fc1", wide, false),
                              product("vision_model.vision_adapter.mlp.fc2", out, false),
                              product("multi_modal_projector.linear_1", hidden, r.flag({"multi_modal_projector_bias"}, false))};
}

// Pixtral's tower and Mistral's projector.
void mistral3(ConfigReader& r, ConfigReader& v, int hidden, VisionTower& tower) {
  read_layers(v, tower, traits_of(kPixtralTower, NormKind::Rms, true, true, v.activation({"hidden_act"}, Activation::Gelu)),
              {.layers = 24, .hidden = 1024, .heads = 16, .ffn = 4096}, {"num_hidden_layers"}, {"num_attention_heads"});
  tower.layers.head_size = v.integer("", {"head_dim"}, 1, tower.layers.hidden / std::max(1, tower.layers.heads));
  read_patches(v, tower, 16, "model.vision_tower.patch_conv", false);
  tower.norm_before = "model.vision_tower.ln_pre";
  read_joined(r, tower, {"spatial_merge_size"});
  const bool bias = r.flag({"multimodal_projector_bias"}, false);
  Projector& p = tower.projector;
  p.norm = "model.multi_modal_projector.norm", p.kind = NormKind::Rms, p.epsilon = 1e-5;
  p.first = product("model.multi_modal_projector.patch_merger.merging_layer", tower.layers.hidden, false);
  p.products = {product("model.multi_modal_projector.linear_1", hidden, bias),
                product("model.multi_modal_projector.linear_2", hidden, bias)};
}

void internvl(ConfigReader& r, ConfigReader& v, int hidden, VisionTower& tower) {
  const bool rms = v.text({"norm_type"}, "layer_norm") == "rms_norm";
  TransformerTraits t = traits_of(kInternTower, rms ? NormKind::Rms : NormKind::Layer, false, false,
                                  v.activation({"hidden_act"}, Activation::Gelu));
  t.epsilon = v.number({"layer_norm_eps"}, 1e-6);
  t.query_bias = v.flag({"attention_bias"}, false);
  t.output_bias = t.mlp_bias = true;
  t.layer_scale = true;
  read_layers(v, tower, t, {.layers = 24, .hidden = 1024, .heads = 16, .ffn = 4096}, {"num_hidden_layers"},
              {"num_attention_heads"});
  if (v.flag({"use_qk_norm"}, false)) v.error(v.find({"use_qk_norm"}), "norms of queries and keys of this tower are not known");
  const int side = read_patches(v, tower, 14, "model.vision_tower.embeddings.patch_embeddings.projection", true);
  const int grid = grid_of(v, side, 448);
  tower.class_token = "model.vision_tower.embeddings.cls_token";
  tower.positions = "model.vision_tower.embeddings.position_embeddings";
  tower.position_rows = grid * grid + 1;
  tower.one_size = true;
  if (!v.flag({"use_mean_pooling"}, true)) tower.norm_after = "model.vision_tower.layernorm";
  const double ratio = r.number({"downsample_ratio"}, 0.5);
  tower.projector.joined = std::clamp(ratio > 0 ? static_cast<int>(std::lround(1 / (ratio * ratio))) : 1, 1, 1 << 12);
  tower.projector.norm = "model.multi_modal_projector.layer_norm";
  tower.projector.norm_of_joined = true;
  tower.projector.epsilon = 1e-5;
  tower.projector.products = {product("model.multi_modal_projector.linear_1", hidden, true),
                              product("model.multi_modal_projector.linear_2", hidden, true)};
}

// Kimi K2.5's MoonViT.
void kimi(ConfigReader&, ConfigReader& v, int hidden, VisionTower& tower) {
  TransformerTraits t = traits_of(kMoonTower, NormKind::Layer, true, false, v.activation({"hidden_act"}, Activation::GeluTanh));
  t.query_bias = t.output_bias = t.mlp_bias = true;
  read_layers(v, tower, t, {.layers = 27, .hidden = 1152, .heads = 16, .ffn = 4304}, {"num_hidden_layers"},
              {"num_attention_heads"});
  read_patches(v, tower, 14, "model.vision_tower.patch_embed.proj", true);
  tower.positions = "model.vision_tower.patch_embed.pos_emb.position_embeddings";
  tower.position_rows =
      bounded_side(v.integer("", {"pos_emb_height"}, 1, 64)) * bounded_side(v.integer("", {"pos_emb_width"}, 1, 64));
  v.integer("", {"pos_emb_time"}, 1, 4);
  int joined = 1;
  const std::vector<int> kernel = v.list("merge_kernel_size");
  for (const int side : kernel.empty() ? std::vector<int>{2, 2} : kernel) joined *= std::clamp(side, 1, 64);
  tower.norm_after = "model.vision_tower.final_layernorm";
  tower.projector.joined = joined;
  tower.projector.norm = "model.mm_projector.pre_norm";
  tower.projector.products = {product("model.mm_projector.in_proj", joined * tower.layers.hidden, true),
                              product("model.mm_projector.out_proj", hidden, true)};
}

}  // namespace

const std::vector<VisionClass>& vision_classes() {
  static const std::vector<VisionClass> classes = {
      {"qwen2_vl", "Qwen2VLForConditionalGeneration", "qwen2_vl_text", 448, false, qwen2_vl},
      {"qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl_text", 448, false, qwen2_5_vl},
      {"qwen3_vl", "Qwen3VLForConditionalGeneration", "qwen3_vl_text", 512, false, qwen3_vl_deep},
      {"qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe_text", 512, false, qwen3_vl_deep},
      {"qwen3_5", "Qwen3_5ForConditionalGeneration", "qwen3_5_text", 512, false, qwen3_vl},
      {"qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe_text", 512, false, qwen3_vl},
      {"glm4v", "Glm4vForConditionalGeneration", "glm4v_text", 336, false, glm4v},
      {"glm4v_moe", "Glm4vMoeForConditionalGeneration", "glm4v_moe_text", 336, false, glm4v},
      {"gemma3", "Gemma3ForConditionalGeneration", "gemma3_text", 224, true, gemma3},
      {"paligemma", "PaliGemmaForConditionalGeneration", "gemma", 224, true, paligemma},
      {"llama4", "Llama4ForConditionalGeneration", "llama4_text", 448, false, llama4},
      {"mistral3", "Mistral3ForConditionalGeneration", "mistral", 448, true, mistral3},
      {"internvl", "InternVLForConditionalGeneration", "qwen2", 448, true, internvl},
      {"kimi_k25", "Kimi_K25ForConditionalGeneration", "deepseek_v3", 448, true, kimi},
  };
  return classes;
}

}  // namespace panpipe
