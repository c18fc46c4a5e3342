// A multimodal language model: a Vision Transformer over an image, a projector that joins 2 x 2 patches to one token of the
// language model's width (as in Qwen2-VL, Wang et al., arXiv 2409.12191), and a Llama over image and text. Encoder and language
// model have separate lengths and widths.
#include <fmt/format.h>

#include "costmodel/workload/builder.hpp"
#include "costmodel/workload/models.hpp"
#include "costmodel/workload/transformer_names.hpp"

namespace panpipe {
namespace {

constexpr double kMergerEpsilon = 1e-6;
constexpr int kJoined = 4;  // patches in one token of the language model

// A ViT's layers under names of their own.
const TransformerTraits& encoder_traits() {
  static const TransformerTraits traits = [] {
    static constexpr ModuleNames kNames = with(kVitNames, "layer=visual.blocks.");
    TransformerTraits made = family_traits().vit;
    made.names = &kNames;
    return made;
  }();
  return traits;
}

ModelDimensions encoder(const ModelDimensions& d) {
  return {.layers = d.vision_layers,
          .hidden = d.vision_hidden,
          .heads = d.vision_heads,
          .ffn = d.vision_ffn,
          .image = d.image,
          .patch = d.patch,
          .dropout = d.dropout};
}

// Patches of the image as tokens, without a class token.
int embed_image(const Transformer& vit, int pixels) {
  GraphBuilder& g = vit.g;
  const ModelDimensions& d = vit.d;
  const std::int64_t tokens = vit.tokens;
  const int grid = g.conv2d(pixels, "visual.patch_embed.proj", d.hidden, d.patch, d.patch, 0);
  g.module("visual");
  const int patches = g.transpose(g.reshape(grid, {g.request().degrees.micro, d.hidden, tokens}), 1, 2);
  const int positions = g.parameter("visual.position_embeddings", {1, tokens, d.hidden}, kNormalInit);
  return g.scatter_sequence(g.add(patches, positions));
}

// (batch, patches, vision width) to (batch, patches / 4, width): a normalization and two products.
int project(const Transformer& vit, int x, std::int64_t width) {
  GraphBuilder& g = vit.g;
  const ModelDimensions& d = vit.d;
  const std::int64_t tokens = vit.tokens;
  const std::int64_t joined = std::int64_t{kJoined} * d.hidden;
  const int normal = g.gather_sequence(g.layer_norm(x, "visual.merger.ln_q", kMergerEpsilon));
  g.module("visual.merger");
  const int wide = g.enter_vocabulary(g.reshape(normal, {g.request().degrees.micro, tokens / kJoined, joined}));
  const int first = g.linear(wide, "visual.merger.mlp.0", joined, {.split = Split::Column});
  const int active = g.gelu(first, "none");
  const int weight = g.parameter("visual.merger.mlp.2.weight", {width, joined}, kNormalInit, 1);
  const int bias = g.parameter("visual.merger.mlp.2.bias", {width}, "zeros");
  g.module("visual.merger.mlp.2");
  return g.add(g.sum_parallel(g.linear_op(active, weight)), bias);  // whole on every rank, even if ranks share the sequence
}

}  // namespace

OperatorGraph build_mllm(const std::string& model, const ModelDimensions& d, const WorkloadShape& shape) {
  const ModelDimensions vision = encoder(d);
  const std::int64_t patches = std::int64_t{kJoined} * image_tokens(d);
  check_degree_of_heads(d, shape, model);
  check_transformer_degree(vision, static_cast<int>(patches), shape, model);
  constexpr std::size_t kOperatorsPerLayer = 42, kOperatorsAround = 48;
  GraphBuilder g(model, shape, static_cast<std::size_t>(d.layers + d.vision_layers) * kOperatorsPerLayer + kOperatorsAround);
  g.set_dropout(d.dropout);
  const std::int64_t batch = shape.degrees.micro, text = d.sequence - image_tokens(d);
  const int pixels = g.input("pixel_values", g.compute(), {batch, 3, d.image, d.image});
  const int tokens = g.input("input_ids", DType::Int64, {batch, text});
  const int labels =
      g.input("labels", DType::Int64, {batch, d.sequence});  // already the next tokens; -100 for those of the image

  const Transformer vit{g, vision, encoder_traits(), patches};
  g.unit("vision.embedding");
  int x = embed_image(vit, pixels);
  for (int i = 0; i < vision.layers; ++i) x = transformer_layer(vit, x, i, fmt::format("vision.h.{}", i), i);
  g.unit("projector");
  const int image = project(vit, x, d.hidden);

  Transformer llama{g, d, family_traits().llama, d.sequence};
  add_rotary_tables(llama);
  g.unit("embedding");
  g.module("model.embed_tokens");
  const int word_weight = g.vocabulary_parameter("model.embed_tokens.weight", {d.vocabulary, d.hidden}, kNormalInit);
  const int words = g.sum_parallel(g.vocabulary_embedding(tokens, word_weight, d.vocabulary));
  g.module("model");
  x = g.scatter_sequence(g.cat({image, words}, 1));
  for (int i = 0; i < d.layers; ++i) x = transformer_layer(llama, x, i, fmt::format("h.{}", i), vision.layers + i);
  g.unit("head");
  return g.finish(transformer_head(llama, x, labels, word_weight));
}

}  // namespace panpipe
