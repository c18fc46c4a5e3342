// Gemma 3n's residual streams side by side (AltUp, Baykal et al., NeurIPS 2023): each layer predicts all of them from all of
// them, computes one, and corrects the others by what that one was missed by; a narrow product next to the attention (LAuReL,
// arXiv 2411.07501); and what each layer reads of a token itself from a table of its own.
#include <fmt/format.h>

#include <cmath>

#include "costmodel/workload/builder.hpp"
#include "costmodel/workload/models.hpp"
#include "costmodel/workload/transformer.hpp"

namespace panpipe {
namespace {

const LinearOptions kPlain{.bias = false};

// Streams are neighbours: (batch, tokens, count x hidden). The first is the one that layers compute.
int stream(const Transformer& m, int streams, int i) {
  const std::int64_t hidden = m.d.hidden;
  return m.g.slice(streams, 2, i * hidden, (i + 1) * hidden);
}

int with_magnitude_of(const Transformer& m, int x, int other) {
  return m.g.op("panpipe_nn::like_magnitude", m.g.shape(x), m.g.dtype(x), TensorRef{x}, TensorRef{other});
}

// (batch, tokens, count): how much of each stream a token takes. Weights are read twice in a layer.
struct Router {
  int norm, weight;
};

int routed(const Transformer& m, int x, const Router& by) {
  GraphBuilder& g = m.g;
  const int normal = g.op("aten::rms_norm", g.shape(x), g.dtype(x), TensorRef{x}, std::vector<std::int64_t>{g.shape(x).back()},
                          TensorRef{by.norm}, m.t.epsilon);
  return g.unary("tanh", g.linear_op(g.scale(normal, 1.0 / m.d.hidden), by.weight));
}

// What this layer reads of each token: gated by the computed stream, and added to the others.
int add_token(const Transformer& m, int streams, int layer, const std::string& path) {
  GraphBuilder& g = m.g;
  int first = stream(m, streams, 0);
  if (m.t.streams.scaled) first = g.mul(first, g.parameter(path + ".altup.correct_output_scale", {m.d.hidden}, "zeros"));
  const int gate = transformer_activation(m, g.linear(first, path + ".per_layer_input_gate", m.t.streams.per_layer, kPlain));
  const int mixed = g.linear(g.mul(gate, m.per_layer[layer]), path + ".per_layer_projection", m.d.hidden, kPlain);
  const int made = transformer_norm(m, mixed, path + ".post_per_layer_input_norm");
  return g.op("panpipe_nn::add_to_later_streams", g.shape(streams), g.dtype(streams), TensorRef{streams}, TensorRef{made});
}

}  // namespace

int read_per_layer(const Transformer& m, int ids) {
  GraphBuilder& g = m.g;
  const std::int64_t features = std::int64_t{m.d.layers} * m.t.streams.per_layer;
  g.module("model.embed_tokens_per_layer");
  const int table = g.parameter("model.embed_tokens_per_layer.weight", {m.t.streams.vocabulary, features}, kNormalInit);
  return g.scale(g.embedding(ids, table), std::sqrt(static_cast<double>(m.t.streams.per_layer)));
}

int enter_streams(const Transformer& m, int x, int rows) {
  GraphBuilder& g = m.g;
  const std::int64_t per_layer = m.t.streams.per_layer;
  g.unit("streams");
  const int projected = g.scale(g.linear(x, "model.per_layer_model_projection", g.shape(rows)[2], kPlain),
                                1 / std::sqrt(static_cast<double>(m.d.hidden)));
  const Shape flat = g.shape(projected);
  const int by_layer = g.view(projected, {flat[0], flat[1], flat[2] / per_layer, per_layer});
  const int normal = g.view(g.rms_norm(by_layer, "model.per_layer_projection_norm", m.t.epsilon), flat);
  const int mixed = g.scale(g.add(normal, rows), std::sqrt(0.5));
  for (int i = 0; i < m.d.layers; ++i) m.per_layer.push_back(g.slice(mixed, 2, i * per_layer, (i + 1) * per_layer));
  std::vector<int> streams = {x};
  for (int i = 1; i < m.t.streams.count; ++i)
    streams.push_back(with_magnitude_of(m, g.linear(x, fmt::format("model.altup_projections.{}", i - 1), m.d.hidden, kPlain), x));
  return g.cat(streams, 2);
}

int streams_layer(const Transformer& m, int x, int layer, const std::string& path) {
  GraphBuilder& g = m.g;
  const ModuleNames& names = *m.t.names;
  const ResidualStreams& s = m.t.streams;
  const std::int64_t count = s.count;
  const std::string altup = path + ".altup", laurel = path + ".laurel";
  g.module(altup);
  const Router router{g.parameter(altup + ".router_norm.weight", {m.d.hidden}, "ones"),
                      g.parameter(altup + ".modality_router.weight", {count, m.d.hidden}, kNormalInit)};
  const int weights = g.linear(routed(m, stream(m, x, 0), router), altup + ".prediction_coefs", count * count, kPlain);
  const int predicted = g.op("panpipe_nn::mix_streams", g.shape(x), g.dtype(x), TensorRef{x}, TensorRef{weights});
  const int active = stream(m, predicted, 0);

  const int normal = transformer_norm(m, active, module_at(path, names.attention_norm));
  const int narrow = g.linear(normal, laurel + ".linear_left", s.rank, kPlain);
  const int beside = g.add(
      normal, transformer_norm(m, g.linear(narrow, laurel + ".linear_right", m.d.hidden, kPlain), laurel + ".post_laurel_norm"));
  const int attended = transformer_norm(m, transformer_attention(m, g.enter_parallel(normal), layer, path),
                                        module_at(path, names.attention_after_norm));
  const int middle = g.scale(g.add(g.add(active, attended), beside), std::sqrt(0.5));
  const int entering = g.enter_parallel(transformer_norm(m, middle, module_at(path, names.mlp_norm)));
  const int made =
      g.add(middle, transformer_norm(m, transformer_mlp(m, entering, layer, path), module_at(path, names.mlp_after_norm)));

  g.module(altup);
  const int shares = g.linear(routed(m, made, router), altup + ".correction_coefs", count, kPlain);
  const int corrected = g.op("panpipe_nn::correct_streams", g.shape(predicted), g.dtype(predicted), TensorRef{predicted},
                             TensorRef{made}, TensorRef{shares});
  return add_token(m, corrected, layer, path);
}

int leave_streams(const Transformer& m, int x) {
  GraphBuilder& g = m.g;
  g.unit("join");
  const int first = stream(m, x, 0);
  int sum = first;
  for (int i = 1; i < m.t.streams.count; ++i) {
    const int other = g.linear(stream(m, x, i), fmt::format("model.altup_unembed_projections.{}", i - 1), m.d.hidden, kPlain);
    sum = g.add(sum, with_magnitude_of(m, other, first));
  }
  return g.scale(sum, 1.0 / m.t.streams.count);
}

}  // namespace panpipe
