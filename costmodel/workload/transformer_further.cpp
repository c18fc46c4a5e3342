// Multi-token prediction as DeepSeek-V3 trains it (arXiv 2412.19437, section 2.2): the k-th further layer reads the stream of the
// one before and the embedding of the token k ahead, both normalized, joined by one product; it has a layer of the model's kind
// and a norm of its own, and shares embedding and head. Each rank has the joining product whole and does it for its own tokens.
#include <fmt/format.h>

#include "costmodel/workload/builder.hpp"
#include "costmodel/workload/models.hpp"
#include "costmodel/workload/transformer.hpp"

namespace panpipe {
namespace {

// Ids or labels moved to the front by so many tokens; those behind the end are ignored.
int ahead(const Transformer& m, int ids, int by) {
  return by == 0 ? ids
                 : m.g.op("panpipe_predicted::shift_tokens", m.g.shape(ids), m.g.dtype(ids), TensorRef{ids}, std::int64_t{by});
}

}  // namespace

int further_labels(const Transformer& m, int labels, int k) { return ahead(m, labels, k); }

std::vector<int> further_streams(const Transformer& m, int x, int labels, int word_weight) {
  GraphBuilder& g = m.g;
  std::vector<int> streams;
  for (int k = 1; k <= m.t.further_tokens; ++k) {
    const int layer = m.d.layers + k - 1;
    const std::string block = fmt::format("mtp.{}", k), path = fmt::format("{}{}", m.t.names->layer, layer);
    g.unit(block + ".join", block, layer);
    g.module(path + ".embed_tokens");
    const int weight = g.tied_parameter(path + ".embed_tokens.weight", word_weight);
    // Labels are the next tokens.
    const int words = g.leave_parallel(g.vocabulary_embedding(ahead(m, labels, k - 1), weight, m.d.vocabulary));
    const int joined = g.cat({transformer_norm(m, words, path + ".enorm"), transformer_norm(m, x, path + ".hnorm")}, 2);
    x = g.linear(joined, path + ".eh_proj", m.d.hidden, {.bias = false});
    x = transformer_layer(m, x, layer, block, layer);
    streams.push_back(transformer_norm(m, x, path + ".shared_head.norm"));
  }
  return streams;
}

}  // namespace panpipe
