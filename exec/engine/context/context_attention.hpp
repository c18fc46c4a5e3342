// Attention of a rank's queries to the keys and values of the whole sequence, which are distributed over all context-parallel
// ranks. Blocks travel around a ring while the previous block is processed (Liu, Zaharia, Abbeel, arXiv 2310.01889), or are
// gathered, or heads are exchanged for the sequence (Jacobs et al., arXiv 2309.14509). docs/models/context.md counts the same
// collectives.
#pragma once

#include <ATen/core/Tensor.h>

#include "costmodel/workload/graph.hpp"
#include "exec/engine/context/block_attention.hpp"
#include "exec/engine/stage/pass_group.hpp"

namespace panpipe::exec {

// The data for the backward. Keys and values are one rank's: in a ring those of the last block, where the backward begins; when
// gathered, the rank's own. Without an output (dropped by selective recompute) both are the rank's own.
struct ContextAttention {
  AttentionForm form;
  at::Tensor query, key, value;
  at::Tensor output, log_sum;
};

// `kind`: SendReceive (ring) or AllGather. All ranks of the group call this and the functions below together.
ContextAttention attend_over_context(PassGroup& group, CollectiveKind kind, const AttentionForm& form, const at::Tensor& query,
                                     const at::Tensor& key, const at::Tensor& value);

// Gradients of the rank's own query, key and value, and of the sinks from its own queries, in their element type.
OperandGradients context_attention_backward(PassGroup& group, CollectiveKind kind, ContextAttention kept,
                                            const at::Tensor& output_gradient);

// Converts between all heads of the rank's tokens, (sample, head, token, feature), and the rank's heads of all tokens in order.
// `grows_tokens`: towards all tokens, else back. rows_of_heads() makes the rows for each rank, value_of_rows() the result from
// the rows that arrive.
at::Tensor rows_of_heads(const at::Tensor& value, bool grows_tokens, int degree);
at::Tensor value_of_rows(const at::Tensor& rows, bool grows_tokens, int degree);

}  // namespace panpipe::exec
