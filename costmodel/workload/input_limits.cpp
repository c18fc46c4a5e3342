#include "costmodel/workload/input_limits.hpp"

#include <algorithm>
#include <string_view>

#include "costmodel/workload/operator_table.hpp"

namespace panpipe {
namespace {

// Ids count the whole vocabulary, however it is cut.
const Shape& uncut(const Tensor& tensor) { return tensor.shard_dimension >= 0 ? tensor.full_shape : tensor.shape; }

}  // namespace

// Backwards over the graph: a limit of a view or copy is a limit of what it was made from.
std::vector<IntegerRange> integer_ranges(const OperatorGraph& graph) {
  std::vector<IntegerRange> ranges(graph.tensors.size());
  const auto limit = [&](int tensor, std::int64_t most, std::optional<std::int64_t> ignored = {}) {
    if (tensor < 0 || most <= 0) return;
    IntegerRange& known = ranges[tensor];
    if (known.limit == 0)
      known = {most, ignored};
    else
      known = {std::min(known.limit, most), known.ignored == ignored ? ignored : std::nullopt};
  };
  for (auto op = graph.operators.rbegin(); op != graph.operators.rend(); ++op) {
    const auto shape = [&](std::string_view name) -> Shape {
      const int tensor = tensor_argument(*op, name);
      return tensor < 0 ? Shape{} : uncut(graph.tensors[tensor]);
    };
    const OperatorRow* row = find_row(op->target);
    if (row != nullptr && row->role == OperatorRole::Embedding) {
      if (const Shape rows = shape("weight"); !rows.empty()) limit(tensor_argument(*op, "indices"), rows[0]);
    } else if (row != nullptr && row->takes("ignore_index")) {  // PyTorch's default where none is stated
      const std::int64_t ignored = value_argument<std::int64_t>(*op, "ignore_index").value_or(-100);
      const Shape logits = shape("self");
      const auto vocabulary = value_argument<std::int64_t>(*op, "vocabulary");
      if (vocabulary || !logits.empty())
        limit(tensor_argument(*op, "target"), vocabulary ? *vocabulary : logits.size() == 1 ? logits[0] : logits[1], ignored);
    } else if (const auto classes = value_argument<std::int64_t>(*op, "num_classes")) {
      limit(tensor_argument(*op, "self"), *classes);
    } else if (op->outputs.size() == 1) {
      const IntegerRange made = ranges[op->outputs[0]];
      limit(first_tensor(*op), made.limit, made.ignored);
    }
  }
  return ranges;
}

}  // namespace panpipe
