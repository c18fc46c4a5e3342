#include "exec/engine/context/context_graph.hpp"

#include <fmt/format.h>

#include <map>
#include <string_view>

#include "base/error.hpp"
#include "costmodel/workload/operands.hpp"

namespace panpipe::exec {
namespace {

constexpr std::string_view kPlain = "aten::scaled_dot_product_attention", kOwn = "panpipe_nn::attention";

bool given(const Operator& op, std::size_t argument) { return std::holds_alternative<TensorRef>(op.arguments.at(argument)); }

void check_attention(const OperatorGraph& graph, const Operator& op) {
  const bool plain = op.target == kPlain, exchanged = op.among != Among::Context;  // heads were
  constexpr std::size_t kSinks = 3, kSlopes = 4;
  const auto refuse = [&](std::string_view why, std::string_view remedy) {
    throw InputError(fmt::format("{}: {}, which the executor does not do with parts of a sequence; {}", op.module, why, remedy));
  };
  if (!plain && given(op, kSinks)) refuse("attention has sinks", fmt::format("run {} with parallel.context 1", graph.name));
  if (!plain && exchanged && given(op, kSlopes))
    refuse("linear biases differ from head to head, and heads are exchanged", "run with context_exchange ring or all-gather");
  if (!exchanged && std::get<double>(op.arguments.at(plain ? 4 : 5)) > 0)
    refuse("dropout inside attention falls on keys of other ranks", "run with workload.dropout 0, or context_exchange ulysses");
}

void check_loss(const OperatorGraph& graph) {
  const int maker = graph.tensors[static_cast<std::size_t>(graph.loss)].producer;
  const std::string& target = graph.operators[static_cast<std::size_t>(maker)].target;
  if (target.find("cross_entropy") != std::string::npos && labels_of(graph) >= 0) return;
  throw InputError(
      fmt::format("the loss of {} is not one cross entropy over the tokens: ranks with parts of a sequence cannot sum it; "
                  "run with parallel.context 1",
                  graph.name));
}

}  // namespace

SliceGraph context_graph(const OperatorGraph& part, const OperatorGraph& whole) {
  check_loss(part);
  for (const Operator& op : part.operators)
    if (op.target == kPlain || op.target == kOwn) check_attention(part, op);
  std::map<std::string_view, const Tensor*> known;
  for (const Tensor& tensor : whole.tensors)
    if (tensor.role != TensorRole::Activation) known[tensor.name] = &tensor;
  SliceGraph made{part, std::vector<int>(part.tensors.size(), -1)};
  for (std::size_t t = 0; t < part.tensors.size(); ++t) {
    Tensor& tensor = made.graph.tensors[t];
    if (tensor.role != TensorRole::Input && tensor.role != TensorRole::Buffer) continue;
    const auto found = known.find(tensor.name);
    PANPIPE_CHECK(found != known.end(), fmt::format("{} of whole sequences has no {}", part.name, tensor.name));
    made.cut[t] = cut_dimension(found->second->shape, tensor.shape, part.context_degree);
    PANPIPE_CHECK(made.cut[t] != -2, fmt::format("{} is not cut along the sequence", tensor.name));
    if (tensor.role == TensorRole::Buffer) tensor.shape = found->second->shape, tensor.full_shape = found->second->full_shape;
  }
  return made;
}

}  // namespace panpipe::exec
