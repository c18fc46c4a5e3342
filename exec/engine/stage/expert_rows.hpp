// Sends rows to the ranks of their experts and back. The router decides how many rows go to each rank, so ranks exchange these
// numbers before they send, and keep them for the way back and for the backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "costmodel/workload/graph.hpp"
#include "exec/engine/stage/pass_group.hpp"

namespace panpipe::exec {

// For operators that move rows of experts between ranks: true if the operator sends rows to the experts, false if it sends them
// back.
bool leads_to_experts(const Operator& op);
// The graph tensor of the counts that identifies an operator which moves rows: made on the way to the experts, read on the way
// back.
int counts_of(const Operator& op);

// Rows that a rank sends to and receives from each member of a group on the way to the experts.
struct RowCounts {
  std::vector<std::int64_t> sent, received;
};

// Exchanges the numbers of rows with the other members. `given` is the operator's second operand: the experts that rows chose
// (any shape), or counts of rows, (ranks, experts). Returns the operator's second result, on the host: (sending ranks, experts of
// this rank), in the order in which the rows arrive.
at::Tensor agree_on_rows(const Operator& op, const at::Tensor& given, int experts, PassGroup& group, RowCounts& counts);

// Posts the rows, forward or backward; `there`: towards the experts.
PassGroup::PostedPtr post_rows(CollectiveKind kind, bool there, const at::Tensor& rows, const RowCounts& counts,
                               PassGroup& group);

}  // namespace panpipe::exec
