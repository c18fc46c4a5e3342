// Attention of a rank's queries to the keys and values of the whole sequence, which lie on all context-parallel ranks: they go
// round in a ring beside the attention to the block before (Liu, Zaharia, Abbeel, arXiv 2310.01889), or are gathered. Collectives
// are those that docs/models/context.md counts. And the exchange of heads for the sequence (Jacobs et al., arXiv 2309.14509).
#pragma once

#include <ATen/core/Tensor.h>

#include "costmodel/workload/graph.hpp"
#include "exec/engine/context/block_attention.hpp"
#include "exec/engine/stage/pass_group.hpp"

namespace panpipe::exec {

// What the backward needs. Keys and values are one rank's: in a ring those of the block that came last, from where the way back
// begins; gathered: the rank's own. Without an output (dropped by selective recompute) both are the rank's own.
struct ContextAttention {
  at::Tensor query, key, value;
  at::Tensor output, log_sum;
};

// `kind`: SendReceive (ring) or AllGather. All ranks of the group together, as all below.
ContextAttention attend_over_context(PassGroup& group, CollectiveKind kind, const AttentionForm& form, const at::Tensor& query,
                                     const at::Tensor& key, const at::Tensor& value);

// Of the rank's own query, key and value, in their element type.
OperandGradients context_attention_backward(PassGroup& group, CollectiveKind kind, const AttentionForm& form,
                                            ContextAttention kept, const at::Tensor& output_gradient);

// From all heads of the rank's tokens, (sample, head, token, feature), to the rank's heads of all tokens in their order
// (`grows_tokens`), or back: rows to send to each rank, and what is made of the rows that arrive.
at::Tensor rows_of_heads(const at::Tensor& value, bool grows_tokens, int degree);
at::Tensor value_of_rows(const at::Tensor& rows, bool grows_tokens, int degree);

}  // namespace panpipe::exec
