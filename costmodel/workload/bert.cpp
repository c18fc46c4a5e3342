// BERT with the names of Hugging Face's BertForPreTraining: post-normalization, exact GELU, token types, and both losses of the
// paper (masked tokens and next sentence). Attention covers all positions (no padding mask).
#include "costmodel/workload/builder.hpp"
#include "costmodel/workload/models.hpp"
#include "costmodel/workload/transformer.hpp"

#include <fmt/format.h>

namespace panpipe {
namespace {

// A config.json states its own; a model by name has the family's.
const TransformerTraits& traits_of(const ModelDimensions& d) {
  return d.traits.names == family_traits().bert.names ? d.traits : family_traits().bert;
}

constexpr int kTokenTypes = 2;

struct Bert {
  GraphBuilder& g;
  const ModelDimensions& d;
  std::int64_t tokens;  // of a sample, on this rank
};

int embed(const Bert& bert, int tokens, int types, int word_weight) {
  auto& [g, d, rank_tokens] = bert;
  const std::string name = "bert.embeddings";
  g.module(name + ".word_embeddings");
  const int words = g.sum_parallel(g.vocabulary_embedding(tokens, word_weight, d.vocabulary));
  g.module(name + ".token_type_embeddings");
  const int type_weight = g.parameter(name + ".token_type_embeddings.weight", {kTokenTypes, d.hidden}, kNormalInit);
  const int with_types = g.add(words, g.embedding(types, type_weight));
  g.module(name + ".position_embeddings");
  const int position_weight = g.parameter(name + ".position_embeddings.weight", {d.positions, d.hidden}, kNormalInit);
  const int position_ids = g.buffer("position_ids", DType::Int64, {1, rank_tokens}, "arange");
  const int sum = g.add(with_types, g.embedding(position_ids, position_weight));
  const int part = g.scatter_sequence(sum);
  return g.dropout(g.layer_norm(part, name + ".LayerNorm", traits_of(d).epsilon));
}

int masked_token_loss(const Bert& bert, int x, int labels, int word_weight) {
  auto& [g, d, rank_tokens] = bert;
  const std::string name = "cls.predictions";
  const int wide = g.linear(x, name + ".transform.dense", d.hidden);
  const int hidden = transformer_activation({g, d, traits_of(d), rank_tokens}, wide);
  const int normal = g.enter_vocabulary(g.layer_norm(hidden, name + ".transform.LayerNorm", traits_of(d).epsilon));
  g.module(name + ".decoder");
  const int weight = g.tied_parameter(name + ".decoder.weight", word_weight);
  const int bias = g.vocabulary_parameter(name + ".bias", {d.vocabulary}, "zeros");
  const int logits = g.linear_op(normal, weight, bias);
  const std::int64_t rows = g.shape(labels)[0] * g.shape(labels)[1];
  g.module("loss");
  const int flat = g.view(logits, {rows, g.shape(logits).back()});
  return g.vocabulary_cross_entropy(flat, g.view(labels, {rows}), d.vocabulary);
}

int next_sentence_loss(const Bert& bert, int x, int label) {
  auto& [g, d, rank_tokens] = bert;
  g.module("bert.pooler");
  const int first = g.select(x, 1, 0);
  const int dense = g.linear(first, "bert.pooler.dense", d.hidden);
  const int scores = g.linear(g.unary("tanh", dense), "cls.seq_relationship", 2);
  g.module("loss");
  return g.cross_entropy(scores, label);
}

}  // namespace

OperatorGraph build_bert(const std::string& model, const ModelDimensions& d, const WorkloadShape& shape) {
  const int of_rank = tokens_of_rank(d, shape, model);
  check_transformer_degree(d, of_rank, shape, model);
  constexpr std::size_t kOperatorsPerLayer = 28, kOperatorsAround = 40;
  GraphBuilder g(model, shape, static_cast<std::size_t>(d.layers) * kOperatorsPerLayer + kOperatorsAround);
  g.set_dropout(d.dropout);
  const Bert bert{g, d, of_rank};
  const Transformer layers{g, d, traits_of(d), of_rank};
  const std::int64_t batch = shape.degrees.micro;
  const int tokens = g.input("input_ids", DType::Int64, {batch, of_rank});
  const int types = g.input("token_type_ids", DType::Int64, {batch, of_rank});
  const int labels = g.input("labels", DType::Int64, {batch, of_rank});  // -100 where nothing is masked
  const int next = d.traits.next_sentence ? g.input("next_sentence_label", DType::Int64, {batch}) : -1;

  g.unit("embedding");
  const int word_weight = g.vocabulary_parameter("bert.embeddings.word_embeddings.weight", {d.vocabulary, d.hidden}, kNormalInit);
  int x = embed(bert, tokens, types, word_weight);
  for (int i = 0; i < d.layers; ++i) x = transformer_layer(layers, x, i, fmt::format("h.{}", i), i);

  g.unit("head");
  g.module("head");
  x = g.gather_sequence(x);
  const int masked = masked_token_loss(bert, x, labels, word_weight);
  if (!d.traits.next_sentence) return g.finish(masked);
  const int sentence = next_sentence_loss(bert, x, next);
  return g.finish(g.add(masked, sentence));
}

}  // namespace panpipe
