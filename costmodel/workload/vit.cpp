// Vision Transformer as Hugging Face's ViTForImageClassification names it: convolution over patches, class token, learned
// positions, pre-normalization, exact GELU, linear classifier on the class token.
#include <fmt/format.h>

#include "costmodel/workload/blocks.hpp"
#include "costmodel/workload/builder.hpp"
#include "costmodel/workload/models.hpp"

namespace panpipe {
namespace {

constexpr double kVitEpsilon = 1e-6;

using Vit = VitLayers;

int embed(const Vit& vit, int pixels) {
  auto& [g, d, tokens] = vit;
  const std::string name = "vit.embeddings";
  const std::int64_t batch = g.request().microbatch;
  const int grid = g.conv2d(pixels, name + ".patch_embeddings.projection", d.hidden, d.patch, d.patch, 0);
  g.module(name);
  const int patches = g.transpose(g.reshape(grid, {batch, d.hidden, tokens - 1}), 1, 2);
  const int class_token = g.parameter(name + ".cls_token", {1, 1, d.hidden}, kNormalInit);
  const int all = g.cat({g.expand(class_token, {batch, 1, d.hidden}), patches}, 1);
  const int positions = g.parameter(name + ".position_embeddings", {1, tokens, d.hidden}, kNormalInit);
  return g.dropout(g.scatter_sequence(g.add(all, positions)));
}

}  // namespace

int vit_attention(const VitLayers& vit, int x, const std::string& layer) {
  GraphBuilder& g = vit.g;  // clang 14 has no structured bindings inside of lambdas
  const ModelDimensions& d = vit.d;
  const std::int64_t tokens = vit.tokens;
  const std::string name = layer + ".attention";
  const std::int64_t batch = g.request().microbatch, head_size = d.hidden / d.heads;
  const std::int64_t heads = d.heads / g.tensor_degree();
  const int normal = g.enter_parallel(g.layer_norm(x, layer + ".layernorm_before", kVitEpsilon));
  const auto project = [&](const char* part) {
    const int flat = g.linear(normal, name + ".attention." + part, d.hidden, {.split = Split::Column});
    return g.transpose(g.view(flat, {batch, tokens, heads, head_size}), 1, 2);
  };
  const int q = project("query"), k = project("key"), v = project("value");
  g.module(name + ".attention");
  const int mixed = g.transpose(g.attention(q, k, v, false), 1, 2);
  const int joined = g.reshape(mixed, {batch, tokens, heads * head_size});
  const int projected = g.linear(joined, name + ".output.dense", d.hidden, {.split = Split::Row});
  return g.add(x, g.dropout(projected));
}

int vit_mlp(const VitLayers& vit, int x, const std::string& layer) {
  auto& [g, d, tokens] = vit;
  const int normal = g.enter_parallel(g.layer_norm(x, layer + ".layernorm_after", kVitEpsilon));
  const int wide = g.linear(normal, layer + ".intermediate.dense", d.ffn, {.split = Split::Column});
  const int narrow = g.linear(g.gelu(wide, "none"), layer + ".output.dense", d.hidden, {.split = Split::Row});
  return g.add(x, g.dropout(narrow));
}

OperatorGraph build_vit(const std::string& model, const ModelDimensions& d, const WorkloadShape& shape) {
  const int side = d.image / d.patch;
  const int tokens = side * side + 1;
  check_transformer_degree(d, tokens, shape, model);
  constexpr std::size_t kOperatorsPerLayer = 28, kOperatorsAround = 24;
  GraphBuilder g(model, shape, static_cast<std::size_t>(d.layers) * kOperatorsPerLayer + kOperatorsAround);
  g.set_dropout(d.dropout);
  const VitLayers vit{g, d, tokens};
  const std::int64_t batch = shape.microbatch;
  const int pixels = g.input("pixel_values", g.compute(), {batch, 3, d.image, d.image});
  const int labels = g.input("labels", DType::Int64, {batch});

  g.unit("embedding");
  int x = embed(vit, pixels);
  for (int i = 0; i < d.layers; ++i) {
    const std::string number = std::to_string(i), block = "h." + number, layer = "vit.encoder.layer." + number;
    g.unit(block + ".attention", block, i);
    x = vit_attention(vit, x, layer);
    g.unit(block + ".mlp", block, i);
    x = vit_mlp(vit, x, layer);
  }

  g.unit("head");
  const int normal = g.gather_sequence(g.layer_norm(x, "vit.layernorm", kVitEpsilon));
  g.module("classifier");
  const int scores = g.linear(g.select(normal, 1, 0), "classifier", d.classes);
  g.module("loss");
  return g.finish(g.cross_entropy(scores, labels));
}

}  // namespace panpipe
