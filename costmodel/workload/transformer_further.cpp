// Multi-token prediction as DeepSeek-V3 trains it (arXiv 2412.19437, section 2.2): the k-th further layer reads the stream of the
// one before, behind that one's last norm, and the embedding of the token k ahead, both normalized, joined by one product; it has
// a layer of the model's kind and a norm of its own, and shares embedding and head. So do Megatron-LM
// (megatron/core/transformer/multi_token_prediction.py) and the published weights. Each rank has the joining product whole and
// does it for its own tokens.
#include <fmt/format.h>

#include "costmodel/workload/builder.hpp"
#include "costmodel/workload/models.hpp"
#include "costmodel/workload/transformer.hpp"

namespace panpipe {
namespace {

constexpr std::int64_t kIgnored = -100;  // the label that a loss passes over
constexpr std::int64_t kAnyWord = 0;     // read where a label is ignored or the sequence has ended: no loss depends on it

// Labels moved to the front by so many tokens.
int ahead(const Transformer& m, int labels, int by, std::int64_t behind) {
  return m.g.op("panpipe_nn::shift_tokens", m.g.shape(labels), m.g.dtype(labels), TensorRef{labels}, std::int64_t{by}, behind);
}

}  // namespace

int further_labels(const Transformer& m, int labels, int k) { return ahead(m, labels, k, kIgnored); }

std::vector<int> further_streams(const Transformer& m, int& x, int labels, int word_weight) {
  GraphBuilder& g = m.g;
  std::vector<int> streams;
  for (int k = 1; k <= m.t.further_tokens; ++k) {
    const int layer = m.d.layers + k - 1;
    const std::string block = fmt::format("mtp.{}", k), path = fmt::format("{}{}", m.t.names->layer, layer);
    g.unit(block + ".join", block, layer);
    if (k == 1 && m.t.final_norm) x = transformer_norm(m, x, std::string(m.t.names->final_norm));
    const int before = streams.empty() ? x : streams.back();
    g.module(path + ".embed_tokens");
    const int weight = g.tied_parameter(path + ".embed_tokens.weight", word_weight);
    // Labels are the next tokens.
    const int words = g.leave_parallel(g.vocabulary_embedding(ahead(m, labels, k - 1, kAnyWord), weight, m.d.vocabulary));
    const int joined = g.cat({transformer_norm(m, words, path + ".enorm"), transformer_norm(m, before, path + ".hnorm")}, 2);
    const int made = transformer_layer(m, g.linear(joined, path + ".eh_proj", m.d.hidden, {.bias = false}), layer, block, layer);
    streams.push_back(transformer_norm(m, made, path + ".shared_head.norm"));
  }
  return streams;
}

}  // namespace panpipe
