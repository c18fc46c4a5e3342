#include "exec/engine/context/context_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>

#include "base/error.hpp"
#include "costmodel/workload/attention_operator.hpp"
#include "exec/engine/context/block_attention.hpp"

namespace panpipe::exec {
namespace {

void check_loss(const OperatorGraph& graph) {
  const int maker = graph.tensors[graph.loss].producer;
  if (is_over_classes(graph.operators[maker]) && labels_of(graph) >= 0) return;
  throw InputError(
      fmt::format("the loss of {} is not one cross entropy over the tokens: ranks with parts of a sequence cannot sum it; "
                  "run with parallel.context 1",
                  graph.name));
}

// The exchange of keys and values has an attention of its own, which must support all arguments of the operator.
void check_attention(const OperatorGraph& graph) {
  for (const Operator& op : graph.operators) {
    if (op.among != Among::Context || !is_attention(op)) continue;
    for (const std::string_view name : row_of(op).names) {
      const Argument* given = argument(op, name);
      if (given == nullptr || std::holds_alternative<NoArgument>(*given)) continue;
      if (std::find(std::begin(kFormArguments), std::end(kFormArguments), name) == std::end(kFormArguments))
        throw InputError(
            fmt::format("the attention of '{}' over a divided sequence has no rule for its '{}'; run with "
                        "context_exchange: ulysses, or with parallel.context 1",
                        op.module, name));
    }
  }
}

}  // namespace

SliceGraph context_graph(const OperatorGraph& part, const OperatorGraph& whole) {
  check_loss(part);
  check_parts_of_sequence(part, "divided over context-parallel ranks");
  check_attention(part);
  std::map<std::string_view, const Tensor*> known;
  for (const Tensor& tensor : whole.tensors)
    if (tensor.role != TensorRole::Activation) known[tensor.name] = &tensor;
  SliceGraph made{part, std::vector<int>(part.tensors.size(), -1)};
  for (std::size_t t = 0; t < part.tensors.size(); ++t) {
    Tensor& tensor = made.graph.tensors[t];
    if (tensor.role != TensorRole::Input && tensor.role != TensorRole::Buffer) continue;
    const auto found = known.find(tensor.name);
    PANPIPE_CHECK(found != known.end(), fmt::format("{} of whole sequences has no {}", part.name, tensor.name));
    made.cut[t] = cut_dimension(found->second->shape, tensor.shape, part.degrees.context);
    PANPIPE_CHECK(made.cut[t] != -2, fmt::format("{} is not cut along the sequence", tensor.name));
    if (tensor.role == TensorRole::Buffer) tensor.shape = found->second->shape, tensor.full_shape = found->second->full_shape;
  }
  return made;
}

}  // namespace panpipe::exec
