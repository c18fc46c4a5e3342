// Context parallelism: a rank has a part of the sequence of each sample, and attention needs the keys and values of all of it
// (docs/models/context.md).
#include <fmt/format.h>

#include "base/error.hpp"
#include "costmodel/workload/builder.hpp"
#include "costmodel/workload/models.hpp"

namespace panpipe {
namespace {

constexpr std::size_t kHeads = 1, kTokens = 2;  // of (batch, heads, tokens, features)

// Under a causal mask the first queries see little and the last see much. Each rank gets the first and the last of the remaining
// 2 x degree parts, so that all do the same work (zig-zag; as in Megatron-LM and torchtitan).
constexpr int kPartsOfRank = 2;

}  // namespace

int tokens_of_rank(const ModelDimensions& d, const WorkloadShape& shape, const std::string& model) {
  const int degree = shape.degrees.context, parts = kPartsOfRank * degree;
  if (degree == 1) return d.sequence;
  if (d.sequence % parts != 0)
    throw InputError(
        fmt::format("context parallelism of {} needs a sequence that {} divides ({} parts a rank, so that all ranks "
                    "do the same under a causal mask); {} has {} tokens",
                    degree, parts, kPartsOfRank, model, d.sequence));
  if (shape.exchange != ContextExchange::Ulysses) return d.sequence / degree;
  for (const auto& [heads, what] : {std::pair{d.heads, "heads"}, {key_value_heads(d), "key-value heads"}})
    if (heads / shape.degrees.tensor % degree != 0 || heads < shape.degrees.tensor)
      throw InputError(
          fmt::format("context_exchange: ulysses shares out heads: context {} does not divide the {} {} of {} over {} "
                      "tensor-parallel ranks; use ring or all-gather",
                      degree, heads, what, model, shape.degrees.tensor));
  return d.sequence / degree;
}

int GraphBuilder::whole_context(int x) {
  if (graph_.degrees.context == 1 || request_.exchange == ContextExchange::Ulysses) return x;
  Shape whole = shape(x);
  whole[kTokens] *= graph_.degrees.context;
  return op("panpipe::context_keys", std::move(whole), dtype(x), TensorRef{x});
}

int GraphBuilder::heads_for_tokens(int x) { return exchange_heads(x, kTokens, kHeads); }
int GraphBuilder::tokens_for_heads(int x) { return exchange_heads(x, kHeads, kTokens); }

int GraphBuilder::features_for_tokens(int x) { return exchange(x, 1, 2); }
int GraphBuilder::tokens_for_features(int x) { return exchange(x, 2, 1); }

int GraphBuilder::exchange_heads(int x, std::size_t grows, std::size_t shrinks) {
  return request_.exchange == ContextExchange::Ulysses ? exchange(x, grows, shrinks) : x;
}

int GraphBuilder::exchange(int x, std::size_t grows, std::size_t shrinks) {
  if (graph_.degrees.context == 1) return x;
  Shape result = shape(x);
  result[grows] *= graph_.degrees.context;
  result[shrinks] /= graph_.degrees.context;
  const int made = op("panpipe::exchange_heads", std::move(result), dtype(x), TensorRef{x}, static_cast<std::int64_t>(grows),
                      static_cast<std::int64_t>(shrinks));
  collectives(CollectiveKind::AllToAll, CollectiveKind::AllToAll, Among::Context);
  return made;
}

void GraphBuilder::attend_over_context() {
  if (graph_.degrees.context == 1 || request_.exchange == ContextExchange::Ulysses) return;
  if (request_.exchange == ContextExchange::Ring)
    collectives(CollectiveKind::SendReceive, CollectiveKind::SendReceive, Among::Context);
  else
    collectives(CollectiveKind::AllGather, CollectiveKind::ReduceScatter, Among::Context);
}

}  // namespace panpipe
