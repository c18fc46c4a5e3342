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

}  // namespace

// Backwards over the graph: a limit of a view or copy is a limit of what it was made from.
std::vector<std::int64_t> integer_limits(const OperatorGraph& graph) {
  std::vector<std::int64_t> limits(graph.tensors.size(), 0);
  const auto limit = [&](int tensor, std::int64_t most) {
    if (tensor < 0 || most <= 0) return;
    std::int64_t& known = limits[static_cast<std::size_t>(tensor)];
    known = known == 0 ? most : std::min(known, most);
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
      if (!logits.empty()) limit(tensor_argument(*op, 1), logits.size() == 1 ? logits[0] : logits[1]);
    } else if (name == "panpipe::vocabulary_parallel_cross_entropy") {
      limit(tensor_argument(*op, 1), std::get<std::int64_t>(op->arguments[3]));
    } else if (name == "aten::one_hot" && op->arguments.size() > 1) {
      if (const auto* classes = std::get_if<std::int64_t>(&op->arguments[1])) limit(tensor_argument(*op, 0), *classes);
    } else if (op->outputs.size() == 1) {
      limit(tensor_argument(*op, 0), limits[static_cast<std::size_t>(op->outputs[0])]);
    }
  }
  return limits;
}

}  // namespace panpipe
