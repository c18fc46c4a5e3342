// Llama 2 as Hugging Face's LlamaForCausalLM names it: RMSNorm, rotary positions, grouped key-value heads, SwiGLU, no biases,
// a head of its own.
#include "base/error.hpp"
#include "costmodel/workload/blocks.hpp"
#include "costmodel/workload/builder.hpp"
#include "costmodel/workload/models.hpp"

#include <fmt/format.h>

namespace panpipe {
namespace {

constexpr double kLlamaEpsilon = 1e-5;
constexpr int kRotaryBase = 10000;

using Llama = LlamaLayers;

// x cos + rotate(x) sin, where rotate swaps the halves of the head and negates the first.
int rotate(const Llama& llama, int x, const std::string& module) {
  auto& g = llama.g;
  g.module(module);
  const std::int64_t head_size = features_of_head(llama.d);
  const int straight = g.mul(x, llama.cosine);
  const int low = g.slice(x, 3, 0, head_size / 2);
  const int high = g.slice(x, 3, head_size / 2, head_size);
  const int swapped = g.cat({g.unary("neg", high), low}, 3);
  return g.add(straight, g.mul(swapped, llama.sine));
}

}  // namespace

int llama_attention(const LlamaLayers& llama, int x, const std::string& layer) {
  auto& g = llama.g;
  const auto& d = llama.d;
  const std::string name = layer + ".self_attn";
  const std::int64_t batch = g.request().microbatch, head_size = features_of_head(d);
  const int replicas = std::max(1, g.tensor_degree() / d.kv_heads);
  const LinearOptions query{.bias = false, .split = Split::Column};
  const LinearOptions key_value{.bias = false, .split = Split::Column, .replicas = replicas};
  const int normal = g.enter_parallel(g.rms_norm(x, layer + ".input_layernorm", kLlamaEpsilon));
  const auto project = [&](const std::string& part, int heads, const LinearOptions& options) {
    const int flat = g.linear(normal, name + part, heads * head_size, options);
    return g.transpose(g.view(flat, {batch, d.sequence, g.shape(flat).back() / head_size, head_size}), 1, 2);
  };
  int q = project(".q_proj", d.heads, query);
  int k = project(".k_proj", d.kv_heads, key_value);
  const int v = project(".v_proj", d.kv_heads, key_value);
  q = rotate(llama, q, name);
  k = rotate(llama, k, name);
  const int mixed = g.transpose(g.attention(q, k, v, true), 1, 2);
  const int joined = g.reshape(mixed, {batch, d.sequence, d.heads * head_size / g.tensor_degree()});
  const int projected = g.linear(joined, name + ".o_proj", d.hidden, {.bias = false, .split = Split::Row});
  return g.add(x, g.dropout(projected));
}

int llama_mlp(const LlamaLayers& llama, int x, const std::string& layer) {
  auto& g = llama.g;
  const std::string name = layer + ".mlp";
  const LinearOptions column{.bias = false, .split = Split::Column};
  const int normal = g.enter_parallel(g.rms_norm(x, layer + ".post_attention_layernorm", kLlamaEpsilon));
  const int gate = g.linear(normal, name + ".gate_proj", llama.d.ffn, column);
  const int up = g.linear(normal, name + ".up_proj", llama.d.ffn, column);
  g.module(name + ".act_fn");
  const int active = g.mul(g.unary("silu", gate), up);
  const int narrow = g.linear(active, name + ".down_proj", llama.d.hidden, {.bias = false, .split = Split::Row});
  return g.add(x, g.dropout(narrow));
}

void add_rotary_tables(LlamaLayers& llama) {
  const std::int64_t head_size = features_of_head(llama.d);
  auto& g = llama.g;
  llama.cosine = g.buffer("rotary.cos", g.compute(), {llama.d.sequence, head_size}, fmt::format("rotary_cos({})", kRotaryBase));
  llama.sine = g.buffer("rotary.sin", g.compute(), {llama.d.sequence, head_size}, fmt::format("rotary_sin({})", kRotaryBase));
}

int llama_head(const LlamaLayers& llama, int x, int labels, int word_weight) {
  auto& g = llama.g;
  const auto& d = llama.d;
  x = g.enter_parallel(g.rms_norm(x, "model.norm", kLlamaEpsilon));
  return next_token_loss(g, d, x, labels, word_weight, kNormalInit);
}

void check_llama_degree(const ModelDimensions& d, const WorkloadShape& shape, const std::string& model) {
  check_transformer_degree(d, d.sequence, shape, model);
  if (d.kv_heads % shape.tensor_degree != 0 && shape.tensor_degree % d.kv_heads != 0)
    throw InputError(
        fmt::format("tensor parallelism of {} neither divides the {} key-value heads of {} nor is a multiple of them",
                    shape.tensor_degree, d.kv_heads, model));
}

OperatorGraph build_llama(const std::string& model, const ModelDimensions& d, const WorkloadShape& shape) {
  check_llama_degree(d, shape, model);
  constexpr std::size_t kOperatorsPerLayer = 42, kOperatorsAround = 24;
  GraphBuilder g(model, shape, static_cast<std::size_t>(d.layers) * kOperatorsPerLayer + kOperatorsAround);
  g.set_dropout(d.dropout);
  const std::int64_t batch = shape.microbatch;
  const int tokens = g.input("input_ids", DType::Int64, {batch, d.sequence});
  const int labels = g.input("labels", DType::Int64, {batch, d.sequence});  // already the next tokens
  LlamaLayers llama{g, d};
  add_rotary_tables(llama);

  g.unit("embedding");
  g.module("model.embed_tokens");
  const int word_weight = g.vocabulary_parameter("model.embed_tokens.weight", {d.vocabulary, d.hidden}, kNormalInit);
  int x = g.leave_parallel(g.vocabulary_embedding(tokens, word_weight, d.vocabulary));
  for (int i = 0; i < d.layers; ++i) {
    const std::string number = std::to_string(i), block = "h." + number, layer = "model.layers." + number;
    g.unit(block + ".attention", block, i);
    x = llama_attention(llama, x, layer);
    g.unit(block + ".mlp", block, i);
    x = llama_mlp(llama, x, layer);
  }

  g.unit("head");
  return g.finish(llama_head(llama, x, labels, word_weight));
}

}  // namespace panpipe
