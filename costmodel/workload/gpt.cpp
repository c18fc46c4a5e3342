// GPT as Hugging Face's GPT2LMHeadModel names it: learned positions, pre-normalization, fused query-key-value matrix, GELU
// by the tanh form, language-model head tied to the token embedding.
//
// Linear weights are (out, in); the published checkpoints keep the transpose (Conv1D) under the same names.
#include <fmt/format.h>

#include <cmath>

#include "costmodel/workload/blocks.hpp"
#include "costmodel/workload/builder.hpp"
#include "costmodel/workload/models.hpp"

namespace panpipe {
namespace {

constexpr double kGptEpsilon = 1e-5;

struct Gpt {
  GraphBuilder& g;
  const ModelDimensions& d;
  std::string residual_init;  // scaled down by the number of residual additions, 2 per layer
};

int embed(const Gpt& gpt, int tokens, int word_weight) {
  auto& [g, d, init] = gpt;
  g.module("transformer.wte");
  const int words = g.sum_parallel(g.vocabulary_embedding(tokens, word_weight, d.vocabulary));
  g.module("transformer.wpe");
  const int position_weight = g.parameter("transformer.wpe.weight", {d.positions, d.hidden}, kNormalInit);
  const int position_ids = g.buffer("position_ids", DType::Int64, {1, d.sequence}, "arange");
  const int positions = g.embedding(position_ids, position_weight);
  g.module("transformer.drop");
  return g.dropout(g.scatter_sequence(g.add(words, positions)));
}

int attention(const Gpt& gpt, int x, const std::string& layer) {
  auto& [g, d, residual_init] = gpt;
  const std::string name = layer + ".attn";
  const std::int64_t batch = g.request().microbatch;
  const std::int64_t heads = d.heads / g.tensor_degree();
  const std::int64_t head_size = features_of_head(d);
  const int normal = g.enter_parallel(g.layer_norm(x, layer + ".ln_1", kGptEpsilon));
  const int fused = g.linear(normal, name + ".c_attn", 3 * d.heads * head_size, {.split = Split::Column, .fused_matrices = 3});
  g.module(name);
  std::vector<int> qkv = g.split(fused, heads * head_size, 2);
  for (int& part : qkv) part = g.transpose(g.view(part, {batch, d.sequence, heads, head_size}), 1, 2);
  const int mixed = g.transpose(g.attention(qkv[0], qkv[1], qkv[2], true), 1, 2);
  const int joined = g.reshape(mixed, {batch, d.sequence, heads * head_size});
  const int projected = g.linear(joined, name + ".c_proj", d.hidden, {.split = Split::Row, .init = residual_init});
  return g.add(x, g.dropout(projected));
}

int mlp(const Gpt& gpt, int x, const std::string& layer) {
  auto& [g, d, residual_init] = gpt;
  const std::string name = layer + ".mlp";
  const int normal = g.enter_parallel(g.layer_norm(x, layer + ".ln_2", kGptEpsilon));
  const int wide = g.linear(normal, name + ".c_fc", d.ffn, {.split = Split::Column});
  g.module(name + ".act");
  const int active = g.gelu(wide, "tanh");
  const int narrow = g.linear(active, name + ".c_proj", d.hidden, {.split = Split::Row, .init = residual_init});
  return g.add(x, g.dropout(narrow));
}

}  // namespace

int next_token_loss(GraphBuilder& g, const ModelDimensions& d, int x, int labels, int word_weight, std::string_view init) {
  g.module("lm_head");
  const int head_weight = d.tied_embedding ? g.tied_parameter("lm_head.weight", word_weight)
                                           : g.vocabulary_parameter("lm_head.weight", {d.vocabulary, d.hidden}, init);
  const int logits = g.linear_op(x, head_weight);
  g.module("loss");
  const std::int64_t rows = static_cast<std::int64_t>(g.request().microbatch) * d.sequence;
  const int flat = g.view(logits, {rows, g.shape(logits).back()});
  return g.vocabulary_cross_entropy(flat, g.view(labels, {rows}), d.vocabulary);
}

OperatorGraph build_gpt(const std::string& model, const ModelDimensions& d, const WorkloadShape& shape) {
  check_transformer_degree(d, d.sequence, shape, model);
  constexpr std::size_t kOperatorsPerLayer = 26, kOperatorsAround = 24;
  GraphBuilder g(model, shape, static_cast<std::size_t>(d.layers) * kOperatorsPerLayer + kOperatorsAround);
  g.set_dropout(d.dropout);
  const Gpt gpt{g, d, fmt::format("normal({:.6g})", 0.02 / std::sqrt(2.0 * d.layers))};

  const std::int64_t batch = shape.microbatch;
  const int tokens = g.input("input_ids", DType::Int64, {batch, d.sequence});
  const int labels = g.input("labels", DType::Int64, {batch, d.sequence});  // already the next tokens

  g.unit("embedding");
  const int word_weight = g.vocabulary_parameter("transformer.wte.weight", {d.vocabulary, d.hidden}, kNormalInit);
  int x = embed(gpt, tokens, word_weight);
  for (int i = 0; i < d.layers; ++i) {
    const std::string block = "h." + std::to_string(i), layer = "transformer." + block;
    g.unit(block + ".attention", block, i);
    x = attention(gpt, x, layer);
    g.unit(block + ".mlp", block, i);
    x = mlp(gpt, x, layer);
  }

  g.unit("head");
  x = g.enter_parallel(g.layer_norm(x, "transformer.ln_f", kGptEpsilon));
  return g.finish(next_token_loss(g, d, x, labels, word_weight, kNormalInit));
}

}  // namespace panpipe
