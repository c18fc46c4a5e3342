// The cost of an operator, counted from its shapes and independent of devices: work, memory traffic, bytes kept for the backward.
#pragma once

#include <vector>

#include "base/quantity.hpp"
#include "costmodel/workload/graph.hpp"

namespace panpipe {

enum class OperatorClass : std::uint8_t {
  Gemm,         // linear, matmul, convolution: has gemm dimensions
  Attention,    // scaled dot-product attention core
  Elementwise,  // one pass over memory per tensor
  Normalization,
  Embedding,
  Loss,  // log-softmax, cross entropy over the vocabulary
  Collective,
  View,  // no work: reshape, transpose, split without copy
};

// One matrix product: batch x (m x k) * (k x n).
struct GemmShape {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
};

// Attention core dimensions (per tensor-parallel rank).
struct AttentionShape {
  std::int64_t batch = 0, heads = 0, kv_heads = 0, query_length = 0, key_length = 0, head_size = 0;
  bool causal = false;
  std::int64_t value_size = 0;  // features of a value, if they differ from a query's and a key's (`head_size`)
  std::int64_t window = 0;      // tokens that a query sees, itself included; 0: all
  std::int64_t blocks = 1;      // number of blocks in which keys and values arrive, one after another
  bool chosen = false;          // the window is a number of keys that an indexer chose, wherever they stand

  // The share of query-key pairs that a causal mask and a window leave (a mask alone: half).
  double attended_share() const;
  std::int64_t values() const { return value_size > 0 ? value_size : head_size; }
};

struct PassWork {
  Flops flops{0};
  Bytes read{0};
  Bytes written{0};
  std::vector<GemmShape> gemms;  // matrix products of this pass (class Gemm), else empty
};

struct OperatorWork {
  OperatorClass kind{};
  PassWork forward;
  PassWork input_gradient;
  PassWork weight_gradient;
  AttentionShape attention;  // class Attention
  std::vector<int> saved;    // tensors (inputs or outputs) kept for the backward; the caller counts shared ones once
  Bytes saved_extra{
      0};  // kept in addition (dropout masks, softmax statistics), without attention scores, which the cost model decides
  Bytes collective_bytes{0};  // classes Collective and Attention: bytes of the full tensor, or of keys and values
};

// Forward and backward of the whole graph over all tensor-parallel and context-parallel ranks: three times the forward's matrix
// products, counting all attention scores (PaLM's and Megatron's convention). Divide by the microbatch for one sample.
Flops model_flops(const OperatorGraph& graph);

// Per tensor: true for the logits of a loss. These are the loss's first input and the tensors it was made from by views, casts
// and other element-wise operators on one tensor, back to a product or any other operator.
std::vector<bool> logits_of(const OperatorGraph& graph);

// One entry per operator. Throws InputError for an unknown operator, with its name and module.
std::vector<OperatorWork> count_work(const OperatorGraph& graph);

}  // namespace panpipe
