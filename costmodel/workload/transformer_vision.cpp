// The tower of a model of text and images.
#include <fmt/format.h>

#include "base/error.hpp"
#include "costmodel/workload/builder.hpp"
#include "costmodel/workload/vision_tower.hpp"

namespace panpipe {
namespace {

int norm_of(GraphBuilder& g, NormKind kind, int x, const std::string& name, double epsilon) {
  return kind == NormKind::Rms ? g.rms_norm(x, name, epsilon) : g.layer_norm(x, name, epsilon);
}

int product(GraphBuilder& g, int x, const Projector::Product& p) { return g.linear(x, p.name, p.features, {.bias = p.bias}); }

// (batch, tokens of patches, width), a part of the sequence on each rank that divides it.
int embed_patches(const Transformer& vit, const VisionTower& tower) {
  GraphBuilder& g = vit.g;
  const std::int64_t batch = g.request().degrees.micro, hidden = vit.d.hidden, images = tower.images;
  const int pixels = g.input("pixel_values", g.compute(), {batch, images * tower.patches(), tower.pixels});
  g.unit("vision.embedding");
  int x = product(g, pixels, tower.patch);
  const std::int64_t each = tower.patch_tokens() / images;
  if (!tower.class_token.empty() || !tower.positions.empty()) x = g.view(x, {batch, images, tower.patches(), hidden});
  if (!tower.class_token.empty()) {
    g.module(tower.class_token);
    const int one = g.parameter(tower.class_token, {1, 1, 1, hidden}, kNormalInit);
    x = g.cat({g.expand(one, {batch, images, 1, hidden}), x}, 2);
  }
  if (!tower.positions.empty()) {
    g.module(tower.positions);
    const int table = g.parameter(tower.positions, {tower.position_rows, hidden}, kNormalInit);
    const int rows = g.buffer("vision.position_ids", DType::Int64, {1, 1, each}, "arange");
    x = g.add(x, g.embedding(rows, table));
  }
  x = g.scatter_sequence(g.view(x, {batch, images * each, hidden}));
  return tower.norm_before.empty() ? x : norm_of(g, vit.t.norm, x, tower.norm_before, vit.t.epsilon);
}

int without_class_tokens(GraphBuilder& g, const VisionTower& tower, int x) {
  if (tower.class_token.empty()) return x;
  const Shape all = g.shape(x);
  const std::int64_t each = tower.patches() + 1, images = tower.images;
  const int by_image = g.view(x, {all[0], images, each, all[2]});
  return g.reshape(g.slice(by_image, 2, 1, each), {all[0], images * tower.patches(), all[2]});
}

int gated(GraphBuilder& g, const Projector& p, int x) {
  const std::int64_t features = g.shape(x).back();
  const LinearOptions none{.bias = false};
  x = g.gelu(g.layer_norm(x, p.gated + ".post_projection_norm", 1e-5), "none");
  const int gate = g.linear(x, p.gated + ".gate_proj", p.gate_width, none),
            up = g.linear(x, p.gated + ".up_proj", p.gate_width, none);
  return g.linear(g.mul(g.unary("silu", gate), up), p.gated + ".down_proj", features, none);
}

// Whole on every rank: its products are few.
int project(GraphBuilder& g, const VisionTower& tower, const Projector& p, int x) {
  x = without_class_tokens(g, tower, g.gather_sequence(x));
  if (!p.norm.empty() && !p.norm_of_joined && !p.averaged) x = norm_of(g, p.kind, x, p.norm, p.epsilon);
  const Shape all = g.shape(x);
  if (p.averaged)
    x = g.op("aten::mean.dim", {all[0], all[1] / p.joined, all[2]}, g.dtype(x),
             TensorRef{g.view(x, {all[0], all[1] / p.joined, p.joined, all[2]})}, std::vector<std::int64_t>{2}, false,
             NoArgument{});
  else if (p.joined > 1)
    x = g.reshape(x, {all[0], all[1] / p.joined, all[2] * p.joined});
  if (!p.norm.empty() && (p.norm_of_joined || p.averaged)) x = norm_of(g, p.kind, x, p.norm, p.epsilon);
  if (!p.first.name.empty()) x = product(g, x, p.first);
  for (std::size_t i = 0; i < p.products.size(); ++i) {
    x = product(g, x, p.products[i]);
    if (i + 1 < p.products.size() || p.last_active) x = g.gelu(x, "none");
  }
  return p.gated.empty() ? x : gated(g, p, x);
}

}  // namespace

Pictures vision_tower(GraphBuilder& g, const VisionTower& tower, int hidden) {
  Transformer vit{g, tower.layers, tower.layers.traits, tower.patch_tokens()};
  add_rotary_tables(vit);
  int x = embed_patches(vit, tower);
  Pictures made;
  for (int i = 0; i < tower.layers.layers; ++i) {
    x = transformer_layer(vit, x, i, fmt::format("vision.h.{}", i), i);
    for (std::size_t k = 0; k < tower.deep.size(); ++k) {
      if (tower.deep[k] != i) continue;
      g.unit(fmt::format("vision.deep.{}", k));
      Projector own = tower.deep_projector;
      const std::string folder = fmt::format("model.visual.deepstack_merger_list.{}.", k);
      own.norm = folder + own.norm;
      for (Projector::Product& p : own.products) p.name = folder + p.name;
      made.deep.push_back(project(g, tower, own, x));
    }
  }
  g.unit("projector");
  if (!tower.norm_after.empty()) x = norm_of(g, vit.t.norm, x, tower.norm_after, vit.t.epsilon);
  made.words = project(g, tower, tower.projector, x);
  PANPIPE_CHECK(g.shape(made.words).back() == hidden, "the projector's width is not the language model's");
  return made;
}

void check_tower(const VisionTower& tower, const ModelDimensions& text, const WorkloadShape& shape, const std::string& model) {
  if (shape.degrees.context > 1)
    throw InputError(
        fmt::format("the images of {} are not divided over ranks with a part of the sequence; use parallel.context 1", model));
  if (text.traits.further_tokens > 0)
    throw InputError(fmt::format("{} predicts further tokens behind words alone; leave out mtp_num_layers or the images", model));
  check_transformer_degree(tower.layers, tower.patch_tokens(), shape, model);
}

}  // namespace panpipe
