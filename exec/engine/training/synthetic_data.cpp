#include "exec/engine/training/synthetic_data.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>

#include <algorithm>
#include <string_view>

#include "exec/engine/stage/operator_arguments.hpp"
#include "exec/engine/stage/scalar_types.hpp"
#include "exec/engine/tensor_parallel_shards.hpp"

namespace panpipe::exec {
namespace {

std::string_view base_name(std::string_view target) { return target.substr(0, target.find('.')); }

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
    const std::string_view name = base_name(op->target);
    const auto shape = [&](std::size_t position) -> Shape {
      const int tensor = tensor_argument(*op, position);
      // Ids count the whole vocabulary, however it is cut.
      return tensor < 0 ? Shape{} : whole_shape(graph.tensors[static_cast<std::size_t>(tensor)]);
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

DataSource synthetic_data(const OperatorGraph& graph, std::uint64_t seed) {
  return [&graph, seed, limits = integer_limits(graph)](int input, std::int64_t sample) {
    const Tensor& tensor = graph.tensors[static_cast<std::size_t>(input)];
    // Any mixing does: neighbouring samples and inputs must not draw the same numbers.
    at::Generator generator = at::detail::createCPUGenerator((seed * 0x9e3779b97f4a7c15ULL) ^
                                                             (static_cast<std::uint64_t>(sample) * 0xbf58476d1ce4e5b9ULL) ^
                                                             static_cast<std::uint64_t>(input));
    const at::ScalarType type = scalar_type(tensor.dtype);
    if (tensor.dtype == DType::Bool) return at::randint(0, 2, tensor.shape, generator, at::kLong).to(type);
    if (!at::isFloatingType(type)) {
      const std::int64_t most = limits[static_cast<std::size_t>(input)];
      return at::randint(0, most > 0 ? most : 2, tensor.shape, generator, at::TensorOptions().dtype(at::kLong)).to(type);
    }
    return at::randn(tensor.shape, generator, at::TensorOptions().dtype(at::kFloat)).to(type);
  };
}

}  // namespace panpipe::exec
