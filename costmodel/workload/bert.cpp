// BERT as Hugging Face's BertForPreTraining names it: post-normalization, exact GELU, token types, and both losses of the
// paper (masked tokens and next sentence). All positions take part in attention (no padding mask).
#include "costmodel/workload/builder.hpp"
#include "costmodel/workload/models.hpp"

namespace panpipe {
namespace {

constexpr double kBertEpsilon = 1e-12;
constexpr int kTokenTypes = 2;

struct Bert {
  GraphBuilder& g;
  const ModelDimensions& d;
};

int embed(const Bert& bert, int tokens, int types, int word_weight) {
  auto& [g, d] = bert;
  const std::string name = "bert.embeddings";
  g.module(name + ".word_embeddings");
  const int words = g.sum_parallel(g.vocabulary_embedding(tokens, word_weight, d.vocabulary));
  g.module(name + ".token_type_embeddings");
  const int type_weight = g.parameter(name + ".token_type_embeddings.weight", {kTokenTypes, d.hidden}, kNormalInit);
  const int with_types = g.add(words, g.embedding(types, type_weight));
  g.module(name + ".position_embeddings");
  const int position_weight = g.parameter(name + ".position_embeddings.weight", {d.positions, d.hidden}, kNormalInit);
  const int position_ids = g.buffer("position_ids", DType::Int64, {1, d.sequence}, "arange");
  const int sum = g.add(with_types, g.embedding(position_ids, position_weight));
  const int part = g.scatter_sequence(sum);
  return g.dropout(g.layer_norm(part, name + ".LayerNorm", kBertEpsilon));
}

int attention(const Bert& bert, int x, const std::string& layer) {
  GraphBuilder& g = bert.g;  // clang 14 has no structured bindings inside of lambdas
  const ModelDimensions& d = bert.d;
  const std::string name = layer + ".attention";
  const std::int64_t batch = g.request().microbatch, head_size = d.hidden / d.heads;
  const std::int64_t heads = d.heads / g.tensor_degree();
  const int whole = g.enter_parallel(x);
  const auto project = [&](const char* part) {
    const int flat = g.linear(whole, name + ".self." + part, d.hidden, {.split = Split::Column});
    return g.transpose(g.view(flat, {batch, d.sequence, heads, head_size}), 1, 2);
  };
  const int q = project("query"), k = project("key"), v = project("value");
  g.module(name + ".self");
  const int mixed = g.transpose(g.attention(q, k, v, false), 1, 2);
  const int joined = g.reshape(mixed, {batch, d.sequence, heads * head_size});
  const int projected = g.linear(joined, name + ".output.dense", d.hidden, {.split = Split::Row});
  return g.layer_norm(g.add(g.dropout(projected), x), name + ".output.LayerNorm", kBertEpsilon);
}

int mlp(const Bert& bert, int x, const std::string& layer) {
  auto& [g, d] = bert;
  const int wide = g.linear(g.enter_parallel(x), layer + ".intermediate.dense", d.ffn, {.split = Split::Column});
  const int narrow = g.linear(g.gelu(wide, "none"), layer + ".output.dense", d.hidden, {.split = Split::Row});
  return g.layer_norm(g.add(g.dropout(narrow), x), layer + ".output.LayerNorm", kBertEpsilon);
}

int masked_token_loss(const Bert& bert, int x, int labels, int word_weight) {
  auto& [g, d] = bert;
  const std::string name = "cls.predictions";
  const int hidden = g.gelu(g.linear(x, name + ".transform.dense", d.hidden), "none");
  const int normal = g.enter_vocabulary(g.layer_norm(hidden, name + ".transform.LayerNorm", kBertEpsilon));
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
  auto& [g, d] = bert;
  g.module("bert.pooler");
  const int first = g.select(x, 1, 0);
  const int dense = g.linear(first, "bert.pooler.dense", d.hidden);
  const int scores = g.linear(g.unary("tanh", dense), "cls.seq_relationship", 2);
  g.module("loss");
  return g.cross_entropy(scores, label);
}

}  // namespace

OperatorGraph build_bert(const std::string& model, const ModelDimensions& d, const WorkloadShape& shape) {
  check_transformer_degree(d, d.sequence, shape, model);
  constexpr std::size_t kOperatorsPerLayer = 28, kOperatorsAround = 40;
  GraphBuilder g(model, shape, static_cast<std::size_t>(d.layers) * kOperatorsPerLayer + kOperatorsAround);
  g.set_dropout(d.dropout);
  const Bert bert{g, d};
  const std::int64_t batch = shape.microbatch;
  const int tokens = g.input("input_ids", DType::Int64, {batch, d.sequence});
  const int types = g.input("token_type_ids", DType::Int64, {batch, d.sequence});
  const int labels = g.input("labels", DType::Int64, {batch, d.sequence});  // -100 where nothing is masked
  const int next = g.input("next_sentence_label", DType::Int64, {batch});

  g.unit("embedding");
  const int word_weight = g.vocabulary_parameter("bert.embeddings.word_embeddings.weight", {d.vocabulary, d.hidden}, kNormalInit);
  int x = embed(bert, tokens, types, word_weight);
  for (int i = 0; i < d.layers; ++i) {
    const std::string number = std::to_string(i), block = "h." + number, layer = "bert.encoder.layer." + number;
    g.unit(block + ".attention", block, i);
    x = attention(bert, x, layer);
    g.unit(block + ".mlp", block, i);
    x = mlp(bert, x, layer);
  }

  g.unit("head");
  g.module("head");
  x = g.gather_sequence(x);
  const int masked = masked_token_loss(bert, x, labels, word_weight);
  const int sentence = next_sentence_loss(bert, x, next);
  return g.finish(g.add(masked, sentence));
}

}  // namespace panpipe
