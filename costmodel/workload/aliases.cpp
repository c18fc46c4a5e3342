#include "costmodel/workload/aliases.hpp"

#include "costmodel/workload/operator_table.hpp"

namespace panpipe {
namespace {

// True if an IfUnchanged operator has nothing to do. Devices are ignored, because a rank computes on one.
bool unchanged(const OperatorGraph& graph, const Operator& op, const OperatorRow& row, const Tensor& in) {
  const Tensor& out = graph.tensors[op.outputs.front()];
  if (row.role == OperatorRole::Cast) return in.dtype == out.dtype && !value_argument<bool>(op, "copy").value_or(false);
  if (row.role == OperatorRole::Dropout)
    return !value_argument<bool>(op, "train").value_or(true) || value_argument<double>(op, "p").value_or(1) == 0 ||
           value_argument<std::int64_t>(op, "p").value_or(1) == 0;
  return false;  // pad, rrelu
}

}  // namespace

int viewed_tensor(const OperatorGraph& graph, const Operator& op) {
  const OperatorRow* row = find_row(op.target);
  const int first = first_tensor(op);
  if (row == nullptr || row->traits.aliasing == Aliasing::Never || first < 0) return -1;
  const Tensor& in = graph.tensors[first];
  if (row->traits.aliasing == Aliasing::IfReal && in.dtype == DType::Complex64) return -1;
  if (row->traits.aliasing == Aliasing::IfUnchanged && !unchanged(graph, op, *row, in)) return -1;
  return first;
}

}  // namespace panpipe
