// Rows on their way to the ranks of their experts and back. How many go from whom to whom is the router's choice: ranks tell each
// other before they send, and keep the numbers for the way back and for the backward, which go the same ways.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "costmodel/workload/graph.hpp"
#include "exec/engine/stage/pass_group.hpp"

namespace panpipe::exec {

// Operators that move rows of experts between ranks.
bool moves_expert_rows(const Operator& op);
// Of those, the ones that bring them to the experts; the others bring them back.
bool leads_to_experts(const Operator& op);
// The graph tensor of the counts by which an operator that moves rows is known: made by the way there, read by the way back.
int counts_of(const Operator& op);

// What one rank sends to and receives from each member of a group on the way to the experts.
struct RowCounts {
  std::vector<std::int64_t> sent, received;
};

// Finds the numbers of a way to the experts with the other members. `given`: the operator's second operand, the experts that rows
// chose (any shape) or counts of rows, (ranks, experts). Gives the operator's second result, on the host: (ranks that sent,
// experts of this rank), in the order in which the rows arrive.
at::Tensor agree_on_rows(const Operator& op, const at::Tensor& given, int experts, PassGroup& group, RowCounts& counts);

// Posts the rows, forward or backward: `there` to the experts.
PassGroup::PostedPtr post_rows(CollectiveKind kind, bool there, const at::Tensor& rows, const RowCounts& counts,
                               PassGroup& group);

}  // namespace panpipe::exec
