// Builds a language model from its traits: embedding, layers, head and loss. Encoders (bert.cpp, vit.cpp) use these layers, too.
#include "costmodel/workload/transformer.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/error.hpp"
#include "base/index.hpp"
#include "costmodel/workload/builder.hpp"
#include "costmodel/workload/models.hpp"
#include "costmodel/workload/vision_tower.hpp"

namespace panpipe {
namespace {

// OPT's products between embedding and layers.
constexpr const char* kProjectIn = "model.decoder.project_in";
constexpr const char* kProjectOut = "model.decoder.project_out";

std::int64_t width_of_embedding(const Transformer& m) { return m.t.embedding_width > 0 ? m.t.embedding_width : m.d.hidden; }

// The input of the products in a layer's half: whole on every rank. The narrow products of latents come first, and so do routers
// that send only their own part of the tokens.
int entered(const Transformer& m, int x, int layer, bool attention) {
  const bool latent = m.t.latent.kv_rank > 0 && m.t.mixer_of(layer) == Mixer::Attention;
  const bool later = attention ? latent : m.t.has_experts(layer) && m.g.experts_apart();
  return later ? x : m.g.enter_parallel(x);
}

// What mixes the tokens of a layer; attention and a linear mixer together have one sum over the ranks.
int mixer(const Transformer& m, int x, int layer, const std::string& path) {
  if (m.t.mixer_of(layer) == Mixer::Attention) return transformer_attention(m, x, layer, path);
  if (m.t.mixer_of(layer) == Mixer::Linear) return transformer_linear(m, x, layer, path);
  const int linear = transformer_linear(m, x, layer, path, false);
  return m.g.leave_parallel(m.g.add(linear, transformer_attention(m, x, layer, path, false)));
}

int half(const Transformer& m, int x, int layer, const std::string& path, bool attention) {
  const int made = m.g.scale(attention ? mixer(m, x, layer, path) : transformer_mlp(m, x, layer, path), m.t.residual_scale);
  if (!m.t.layer_scale) return made;
  return m.g.mul(made, m.g.parameter(path + (attention ? ".lambda_1" : ".lambda_2"), {m.d.hidden}, "ones"));
}

// The residual stream behind one half of a layer.
int residual_half(const Transformer& m, int x, int layer, const std::string& path, bool attention) {
  GraphBuilder& g = m.g;
  const ModuleNames& names = *m.t.names;
  const std::string before = module_at(path, attention ? names.attention_norm : names.mlp_norm);
  const std::string after = module_at(path, attention ? names.attention_after_norm : names.mlp_after_norm);
  switch (m.t.form) {
    case BlockForm::PostNorm: {
      const int made = half(m, entered(m, x, layer, attention), layer, path, attention);
      return transformer_norm(m, g.add(g.dropout(made), x), before);
    }
    case BlockForm::NormAfter:
      return g.add(x, g.dropout(transformer_norm(m, half(m, entered(m, x, layer, attention), layer, path, attention), after)));
    case BlockForm::Sandwich: {
      const int made = half(m, entered(m, transformer_norm(m, x, before), layer, attention), layer, path, attention);
      return g.add(x, g.dropout(transformer_norm(m, made, after)));
    }
    case BlockForm::NormedStream: {
      const int stream = transformer_norm(m, x, before);
      const bool linear = m.t.mixer_of(layer) == Mixer::Linear;
      const StreamFactors& by = !attention ? m.t.mlp_factors : linear ? m.t.linear_factors : m.t.attention_factors;
      const int made = half(m, entered(m, stream, layer, attention), layer, path, attention);
      return g.add(g.scale(stream, by.stream), g.scale(g.dropout(made), by.half));
    }
    default:
      break;
  }
  return g.add(x, g.dropout(half(m, entered(m, transformer_norm(m, x, before), layer, attention), layer, path, attention)));
}

// Attention and MLP read the same residual stream; one sum over the ranks serves both.
int parallel_layer(const Transformer& m, int x, int layer, const std::string& path) {
  GraphBuilder& g = m.g;
  const ModuleNames& names = *m.t.names;
  // Both norms precede the region in which every rank holds all tokens.
  const int first = transformer_norm(m, x, module_at(path, names.attention_norm));
  const bool two = m.t.form == BlockForm::ParallelTwoNorms;
  const int second = two ? transformer_norm(m, x, module_at(path, names.mlp_norm)) : first;
  const int normal = g.enter_parallel(first), other = two ? g.enter_parallel(second) : normal;
  const int attention = transformer_attention(m, normal, layer, path, false);
  int sum = g.leave_parallel(g.add(attention, transformer_mlp(m, other, layer, path, false)));
  if (g.tensor_degree() > 1) {
    const auto add_bias = [&](bool has, std::string_view name) {
      if (has) sum = g.add(sum, g.parameter(module_at(path, name) + ".bias", {m.d.hidden}, "zeros"));
    };
    add_bias(m.t.output_bias, names.output);
    add_bias(m.t.mlp_bias, names.down);
  }
  return g.add(x, g.dropout(sum));
}

// (batch, tokens, hidden), the residual stream in front of the first layer.
int embed(const Transformer& m, int ids, int word_weight) {
  GraphBuilder& g = m.g;
  const ModelDimensions& d = m.d;
  const int partial = g.vocabulary_embedding(ids, word_weight, d.vocabulary);
  if (m.t.positions == Positions::Learned) {
    int words = g.sum_parallel(partial);
    if (m.t.embedding_width > 0) words = g.linear(words, kProjectIn, d.hidden, {.bias = false});
    g.module(std::string(m.t.names->positions));
    const int weight =
        g.parameter(std::string(m.t.names->positions) + ".weight", {d.positions + m.t.extra_positions, d.hidden}, kNormalInit);
    const int rows = g.buffer("position_ids", DType::Int64, {1, m.tokens},
                              m.t.extra_positions > 0 ? fmt::format("arange({})", m.t.extra_positions) : "arange");
    const int positions = g.embedding(rows, weight);
    g.module("transformer.drop");
    return g.dropout(g.scatter_sequence(g.add(words, positions)));
  }
  int x = g.leave_parallel(partial);
  x = g.scale(x, m.t.scaled_embedding ? std::sqrt(static_cast<double>(d.hidden)) : m.t.embedding_scale);
  return m.t.embedding_norm ? transformer_norm(m, x, std::string(m.t.names->embedding_norm)) : x;
}

// Images in front of words. What enters later layers is 0 for words.
int embed_behind(const Transformer& m, int ids, int word_weight, Pictures& pictures) {
  GraphBuilder& g = m.g;
  const double factor = m.t.scaled_embedding ? std::sqrt(static_cast<double>(m.d.hidden)) : m.t.embedding_scale;
  const int words = g.scale(g.sum_parallel(g.vocabulary_embedding(ids, word_weight, m.d.vocabulary)), factor);
  for (int& deep : pictures.deep) deep = g.scatter_sequence(g.cat({deep, g.scale(words, 0)}, 1));
  return g.scatter_sequence(g.cat({pictures.words, words}, 1));
}

void check_degree_of_experts(const Transformer& m, const WorkloadShape& shape, const std::string& model) {
  if (m.t.experts.count == 0) return;
  require_degrees(shape, m.t.experts.count, model);
  if (!m.g.experts_apart()) return;
  if (m.t.form == BlockForm::Parallel || m.t.form == BlockForm::ParallelTwoNorms)
    throw InputError(fmt::format("{} has experts beside its attention, which are not cut; use parallel.expert 1", model));
}

void check_degree(const Transformer& m, const WorkloadShape& shape, const std::string& model) {
  const ModelDimensions& d = m.d;
  check_degree_of_heads(d, shape, model);
  if (m.t.projections != FusedProjections::Separate) require_divides(shape, key_value_heads(d), "key-value heads", model);
  if (shape.degrees.tensor > 1 && m.t.query_key_norm == QueryKeyNorm::Whole)
    throw InputError(
        fmt::format("{} normalizes the queries of all heads together, which is not cut; use parallel.tensor 1", model));
  if (m.t.has_linear()) check_linear_degree(m, model);
  if (m.t.index.heads > 0 && shape.degrees.context > 1)
    throw InputError(fmt::format(
        "the keys that a query of {} attends to are chosen from the whole sequence, for which ranks with a part of it "
        "have no rule; use parallel.context 1",
        model));
  if (!m.t.gate_deviations.empty() && shape.degrees.tensor > 1)
    throw InputError(
        fmt::format("{} compares each gate of its MLPs with mean and deviation of all gates of a token, which are not cut; use "
                    "parallel.tensor 1",
                    model));
  check_degree_of_experts(m, shape, model);
  if (m.t.experts.count > 0) {
    if (m.g.expert_tensor() > 1) require_divides(shape, m.t.experts.ffn, "features of an expert", model);
    if (m.t.experts.shared_ffn > 0) require_divides(shape, m.t.experts.shared_ffn, "features of the shared expert", model);
  }
}

}  // namespace

std::string residual_init(const Transformer& m) {
  return m.t.scaled_residual_init ? fmt::format("normal({:.6g})", 0.02 / std::sqrt(2.0 * m.d.layers)) : std::string(kNormalInit);
}

int transformer_norm(const Transformer& m, int x, const std::string& name) {
  return m.t.norm == NormKind::Rms ? m.g.rms_norm(x, name, m.t.epsilon, m.t.zero_centered_norms)
                                   : m.g.layer_norm(x, name, m.t.epsilon, m.t.norm == NormKind::Layer);
}

int transformer_layer(const Transformer& m, int x, int layer, const std::string& block, int unit_layer) {
  const std::string path = fmt::format("{}{}", m.t.names->layer, layer);
  const bool streams = m.t.streams.count > 0;
  if (streams || m.t.form == BlockForm::Parallel || m.t.form == BlockForm::ParallelTwoNorms) {
    m.g.unit(block, block, unit_layer);
    return streams ? streams_layer(m, x, layer, path) : parallel_layer(m, x, layer, path);
  }
  if (m.t.mixer_of(layer) != Mixer::None) {
    m.g.unit(block + ".attention", block, unit_layer);
    x = residual_half(m, x, layer, path, true);
  }
  if (!m.t.has_mlp(layer)) return x;
  m.g.unit(block + ".mlp", block, unit_layer);
  return residual_half(m, x, layer, path, false);
}

namespace {

// (rows, own vocabulary)
int logits_of_head(const Transformer& m, int x, int weight, int bias) {
  GraphBuilder& g = m.g;
  int logits = g.scale(g.linear_op(x, weight, bias), m.t.logit_scale);
  if (m.t.logit_cap > 0) logits = g.scale(g.unary("tanh", g.scale(logits, 1 / m.t.logit_cap)), m.t.logit_cap);
  g.module("loss");
  return g.view(logits, {static_cast<std::int64_t>(g.request().degrees.micro) * m.tokens, g.shape(logits).back()});
}

}  // namespace

int transformer_head(const Transformer& model, int x, int labels, int word_weight, const std::vector<int>& further) {
  GraphBuilder& g = model.g;
  const ModelDimensions& d = model.d;
  const std::string head(model.t.names->head);
  if (model.t.final_norm && further.empty()) x = transformer_norm(model, x, std::string(model.t.names->final_norm));
  if (model.t.embedding_width > 0) x = g.linear(x, kProjectOut, model.t.embedding_width, {.bias = false});
  x = g.enter_parallel(x);
  g.module(head);
  const int weight = d.tied_embedding
                         ? g.tied_parameter(head + ".weight", word_weight)
                         : g.vocabulary_parameter(head + ".weight", {d.vocabulary, width_of_embedding(model)}, kNormalInit);
  const int bias = model.t.head_bias ? g.vocabulary_parameter(head + ".bias", {d.vocabulary}, "zeros") : -1;
  const std::int64_t rows = static_cast<std::int64_t>(g.request().degrees.micro) * model.tokens;
  const int logits = logits_of_head(model, x, weight, bias);
  int loss = g.vocabulary_cross_entropy(logits, g.view(labels, {rows}), d.vocabulary);
  for (std::size_t k = 0; k < further.size(); ++k) {
    g.module(head);
    const int more = logits_of_head(model, g.enter_parallel(further[k]), weight, bias);
    const int later = g.view(further_labels(model, labels, static_cast<int>(k) + 1), {rows});
    constexpr double kWeight = 0.3;  // of all further losses together (DeepSeek-V3, section 4.2, at first)
    loss = g.add(loss,
                 g.scale(g.vocabulary_cross_entropy(more, later, d.vocabulary), kWeight / static_cast<double>(further.size())));
  }
  return loss;
}

OperatorGraph build_language_model(const std::string& model, const ModelDimensions& d, const WorkloadShape& shape) {
  constexpr std::size_t kOperatorsPerLayer = 60, kOperatorsAround = 32;
  GraphBuilder g(model, shape, static_cast<std::size_t>(d.layers) * kOperatorsPerLayer + kOperatorsAround);
  g.set_dropout(d.dropout);
  Transformer m{g, d, d.traits, tokens_of_rank(d, shape, model)};
  check_degree(m, shape, model);
  if (d.tower) check_tower(*d.tower, d, shape, model);
  const std::int64_t batch = shape.degrees.micro;
  const int tokens = g.input("input_ids", DType::Int64, {batch, m.tokens - (d.tower ? d.tower->words() : 0)});
  const int labels = g.input("labels", DType::Int64, {batch, m.tokens});  // already the next tokens
  Pictures pictures;
  if (d.tower) pictures = vision_tower(g, *d.tower, d.hidden);
  add_rotary_tables(m);

  g.unit("embedding");
  const std::string embedding(d.traits.names->embedding);
  g.module(embedding);
  const int word_weight = g.vocabulary_parameter(embedding + ".weight", {d.vocabulary, width_of_embedding(m)}, kNormalInit);
  int x = d.tower ? embed_behind(m, tokens, word_weight, pictures) : embed(m, tokens, word_weight);
  if (m.t.streams.count > 0) x = enter_streams(m, x, g.scatter_sequence(read_per_layer(m, tokens)));
  const int first = d.tower ? d.tower->layers.layers : 0;
  for (int i = 0; i < d.layers; ++i) {
    x = transformer_layer(m, x, i, fmt::format("h.{}", i), first + i);
    if (at(i) < pictures.deep.size()) x = g.add(x, pictures.deep[at(i)]);
  }

  if (m.t.streams.count > 0) x = leave_streams(m, x);

  const std::vector<int> further = further_streams(m, x, labels, word_weight);
  g.unit("head");
  return g.finish(transformer_head(m, x, labels, word_weight, further));
}

}  // namespace panpipe
