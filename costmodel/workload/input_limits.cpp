#include "costmodel/workload/input_limits.hpp"

#include <algorithm>
#include <string_view>
#include <variant>

#include "costmodel/workload/operands.hpp"

namespace panpipe {
namespace {

std::string_view without_overload(std::string_view target) { return target.substr(0, target.find('.')); }

// Ids count the whole vocabulary, however it is cut.
const Shape& uncut(const Tensor& tensor) { return tensor.shard_dimension >= 0 ? tensor.full_shape : tensor.shape; }

// Of a loss; PyTorch's default where the operator states none.
std::int64_t ignored_label(const Operator& op) {
  const auto named = std::find(op.argument_names.begin(), op.argument_names.end(), "ignore_index");
  const std::size_t position = op.argument_names.empty() ? 4 : static_cast<std::size_t>(named - op.argument_names.begin());
  const auto* stated = position < op.arguments.size() ? std::get_if<std::int64_t>(&op.arguments[position]) : nullptr;
  return stated ? *stated : -100;
}

}  // namespace

// Backwards over the graph: a limit of a view or copy is a limit of what it was made from.
std::vector<IntegerRange> integer_ranges(const OperatorGraph& graph) {
  std::vector<IntegerRange> ranges(graph.tensors.size());
  const auto limit = [&](int tensor, std::int64_t most, std::optional<std::int64_t> ignored = {}) {
    if (tensor < 0 || most <= 0) return;
    IntegerRange& known = ranges[static_cast<std::size_t>(tensor)];
    if (known.limit == 0)
      known = {most, ignored};
    else
      known = {std::min(known.limit, most), known.ignored == ignored ? ignored : std::nullopt};
  };
  for (auto op = graph.operators.rbegin(); op != graph.operators.rend(); ++op) {
    const std::string_view name = without_overload(op->target);
    const auto shape = [&](std::size_t position) -> Shape {
      const int tensor = tensor_argument(*op, position);
      return tensor < 0 ? Shape{} : uncut(graph.tensors[static_cast<std::size_t>(tensor)]);
    };
    if (name == "aten::embedding" || name == "aten::embedding_bag") {
      if (const Shape rows = shape(0); !rows.empty()) limit(tensor_argument(*op, 1), rows[0]);
    } else if (name == "aten::cross_entropy_loss" || name == "aten::nll_loss_nd" || name == "aten::nll_loss") {
      const Shape logits = shape(0);
      if (!logits.empty()) limit(tensor_argument(*op, 1), logits.size() == 1 ? logits[0] : logits[1], ignored_label(*op));
    } else if (name == "panpipe::vocabulary_parallel_cross_entropy") {
      limit(tensor_argument(*op, 1), std::get<std::int64_t>(op->arguments[3]), ignored_label(*op));
    } else if (name == "aten::one_hot" && op->arguments.size() > 1) {
      if (const auto* classes = std::get_if<std::int64_t>(&op->arguments[1])) limit(tensor_argument(*op, 0), *classes);
    } else if (op->outputs.size() == 1) {
      const IntegerRange made = ranges[static_cast<std::size_t>(op->outputs[0])];
      limit(tensor_argument(*op, 0), made.limit, made.ignored);
    }
  }
  return ranges;
}

}  // namespace panpipe
