// Vision Transformer as Hugging Face's ViTForImageClassification names it: convolution over patches, class token, learned
// positions, pre-normalization, exact GELU, linear classifier on the class token.
#include <fmt/format.h>

#include "costmodel/workload/builder.hpp"
#include "costmodel/workload/models.hpp"
#include "costmodel/workload/transformer.hpp"

namespace panpipe {
namespace {

using Vit = Transformer;

int embed(const Vit& vit, int pixels) {
  GraphBuilder& g = vit.g;
  const ModelDimensions& d = vit.d;
  const std::int64_t tokens = vit.tokens;
  const std::string name = "vit.embeddings";
  const std::int64_t batch = g.request().degrees.micro;
  const int grid = g.conv2d(pixels, name + ".patch_embeddings.projection", d.hidden, d.patch, d.patch, 0);
  g.module(name);
  const int patches = g.transpose(g.reshape(grid, {batch, d.hidden, tokens - 1}), 1, 2);
  const int class_token = g.parameter(name + ".cls_token", {1, 1, d.hidden}, kNormalInit);
  const int all = g.cat({g.expand(class_token, {batch, 1, d.hidden}), patches}, 1);
  const int positions = g.parameter(name + ".position_embeddings", {1, tokens, d.hidden}, kNormalInit);
  return g.dropout(g.scatter_sequence(g.add(all, positions)));
}

}  // namespace

OperatorGraph build_vit(const std::string& model, const ModelDimensions& d, const WorkloadShape& shape) {
  const int side = d.image / d.patch;
  const int tokens = side * side + 1;
  check_transformer_degree(d, tokens, shape, model);
  constexpr std::size_t kOperatorsPerLayer = 28, kOperatorsAround = 24;
  GraphBuilder g(model, shape, static_cast<std::size_t>(d.layers) * kOperatorsPerLayer + kOperatorsAround);
  g.set_dropout(d.dropout);
  const Vit vit{g, d, family_traits().vit, tokens};
  const std::int64_t batch = shape.degrees.micro;
  const int pixels = g.input("pixel_values", g.compute(), {batch, 3, d.image, d.image});
  const int labels = g.input("labels", DType::Int64, {batch});

  g.unit("embedding");
  int x = embed(vit, pixels);
  for (int i = 0; i < d.layers; ++i) x = transformer_layer(vit, x, i, fmt::format("h.{}", i), i);

  g.unit("head");
  const int normal = g.gather_sequence(transformer_norm(vit, x, std::string(vit.t.names->final_norm)));
  g.module("classifier");
  const int scores = g.linear(g.select(normal, 1, 0), "classifier", d.classes);
  g.module("loss");
  return g.finish(g.cross_entropy(scores, labels));
}

}  // namespace panpipe
