#include "costmodel/workload/graph.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"
#include "base/index.hpp"
#include "costmodel/workload/operands.hpp"

namespace panpipe {

std::string_view name_of(CollectiveKind kind) {
  constexpr std::string_view kNames[] = {"", "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "send-receive"};
  return kNames[at(kind)];
}
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

std::string argument_text(const OperatorGraph& graph, const Argument& argument) {
  const auto tensor_name = [&](int index) { return index < 0 ? std::string("None") : "%" + graph.tensors[index].name; };
  return std::visit(Overloaded{
                        [](NoArgument) { return std::string("None"); },
                        [&](const TensorRef& ref) { return tensor_name(ref.tensor); },
                        [&](const TensorList& list) {
                          std::vector<std::string> names;
                          for (int index : list.tensors) names.push_back(tensor_name(index));
                          return fmt::format("[{}]", fmt::join(names, ", "));
                        },
                        [](std::int64_t value) { return fmt::format("{}", value); },
                        [](double value) { return fmt::format("{}", value); },
                        [](bool value) { return std::string(value ? "True" : "False"); },
                        [](const std::string& value) { return fmt::format("'{}'", value); },
                        [](const std::vector<std::int64_t>& value) { return fmt::format("[{}]", fmt::join(value, ", ")); },
                        [](DType value) { return std::string(name_of(value)); },
                        [](const std::vector<double>& value) { return fmt::format("[{}]", fmt::join(value, ", ")); },
                        [](DeviceOfRank) { return std::string("device"); },
                    },
                    argument);
}

void check_tensors(const OperatorGraph& graph) {
  const int operators = static_cast<int>(graph.operators.size());
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& tensor = graph.tensors[i];
    PANPIPE_CHECK(!tensor.name.empty(), fmt::format("tensor {} has no name", i));
    for (auto extent : tensor.shape)
      PANPIPE_CHECK(extent >= 0, fmt::format("tensor '{}' has a dimension of {}", tensor.name, extent));
    PANPIPE_CHECK((tensor.role == TensorRole::Activation) == (tensor.producer >= 0) && tensor.producer < operators,
                  fmt::format("tensor '{}' has producer {}", tensor.name, tensor.producer));
    PANPIPE_CHECK(tensor.tied_to < static_cast<int>(i), fmt::format("tensor '{}' is tied to a later one", tensor.name));
    if (tensor.role == TensorRole::Parameter)
      PANPIPE_CHECK(tensor.shape.size() == tensor.full_shape.size() && !tensor.init.empty(),
                    fmt::format("parameter '{}' lacks its full shape or its initial values", tensor.name));
  }
}

}  // namespace

namespace {

std::int64_t count_parameters(const OperatorGraph& graph, bool trained_alone) {
  std::int64_t count = 0;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.role != TensorRole::Parameter || tensor.tied_to >= 0) continue;
    if (trained_alone && !tensor.requires_gradient) continue;
    std::int64_t elements = 1;
    for (auto extent : tensor.full_shape) elements *= extent;
    count += elements;
  }
  return count;
}

}  // namespace

std::int64_t OperatorGraph::parameter_count() const { return count_parameters(*this, false); }

std::int64_t OperatorGraph::trained_count() const { return count_parameters(*this, true); }

void OperatorGraph::check() const {
  const int tensor_count = static_cast<int>(tensors.size());
  check_tensors(*this);
  std::vector<bool> made(tensors.size(), false);
  for (std::size_t i = 0; i < tensors.size(); ++i) made[i] = tensors[i].role != TensorRole::Activation;
  int unit = 0;
  for (std::size_t i = 0; i < operators.size(); ++i) {
    const Operator& op = operators[i];
    for_each_operand(op, [&](int tensor) {
      PANPIPE_CHECK(tensor >= 0 && tensor < tensor_count, fmt::format("{} at {} reads tensor {}", op.target, op.module, tensor));
      PANPIPE_CHECK(made[tensor],
                    fmt::format("{} at {} reads '{}' before it is made", op.target, op.module, tensors[tensor].name));
    });
    PANPIPE_CHECK(!op.outputs.empty(), fmt::format("{} at {} makes nothing", op.target, op.module));
    for (int tensor : op.outputs) {
      PANPIPE_CHECK(tensor >= 0 && tensor < tensor_count, fmt::format("{} at {} makes tensor {}", op.target, op.module, tensor));
      const auto index = static_cast<std::size_t>(tensor);
      PANPIPE_CHECK(!made[index] && tensors[index].producer == static_cast<int>(i),
                    fmt::format("'{}' is made twice or names another producer", tensors[index].name));
      made[index] = true;
    }
    PANPIPE_CHECK(op.unit == unit || op.unit == unit + 1, fmt::format("{} at {} is out of unit order", op.target, op.module));
    unit = op.unit;
  }
  PANPIPE_CHECK(unit + 1 == static_cast<int>(units.size()), "the last operator is not in the last unit");
  for (std::size_t i = 0; i < tensors.size(); ++i)
    PANPIPE_CHECK(made[i], fmt::format("activation '{}' is never made", tensors[i].name));
  PANPIPE_CHECK(loss >= 0 && loss < tensor_count && tensors[loss].elements() == 1, "the loss is not a scalar");
  for (int tensor : inputs)
    PANPIPE_CHECK(tensor >= 0 && tensor < tensor_count && tensors[tensor].role == TensorRole::Input,
                  "an input is not a tensor from the data");
}

std::string OperatorGraph::to_text() const {
  std::string text =
      fmt::format("graph {} (tensor parallel {}{})\n", name, degrees.tensor, degrees.sequence_parallel ? ", sequence" : "");
  for (const Tensor& tensor : tensors)
    if (tensor.role != TensorRole::Activation)
      text += fmt::format("  {} %{}: {}[{}]{}\n",
                          tensor.role == TensorRole::Input       ? "input"
                          : tensor.role == TensorRole::Parameter ? "parameter"
                                                                 : "buffer",
                          tensor.name, name_of(tensor.dtype), fmt::join(tensor.shape, ", "),
                          tensor.tied_to >= 0 ? " = %" + tensors[tensor.tied_to].name : "");
  int unit = -1;
  for (const Operator& op : operators) {
    if (op.unit != unit) text += fmt::format("unit {} {}\n", op.unit, units[op.unit].name);
    unit = op.unit;
    std::vector<std::string> outputs, arguments;
    for (int index : op.outputs) {
      const Tensor& tensor = tensors[index];
      outputs.push_back(fmt::format("%{}: {}[{}]", tensor.name, name_of(tensor.dtype), fmt::join(tensor.shape, ", ")));
    }
    for (const Argument& argument : op.arguments) arguments.push_back(argument_text(*this, argument));
    text += fmt::format("  {} = {}({})  # {}\n", fmt::join(outputs, ", "), op.target, fmt::join(arguments, ", "), op.module);
  }
  if (loss >= 0) text += fmt::format("return %{}\n", tensors[loss].name);
  return text;
}

}  // namespace panpipe
