#include "exec/engine/operator_program.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "costmodel/base/error.hpp"
#include "exec/engine/scalar_types.hpp"

namespace panpipe::exec {
namespace {

// A number where the schema wants a tensor is a wrapped number: a 0-dim tensor that does not take part in type promotion.
at::Tensor wrapped_number(const at::Scalar& value) {
  at::Tensor tensor = at::scalar_tensor(value, at::TensorOptions().dtype(value.isFloatingPoint() ? at::kDouble : at::kLong));
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

// The schema's type decides what a literal becomes; the graph's literals are as the model's author wrote them.
c10::IValue coerce(c10::IValue value, const c10::TypePtr& type) {
  c10::TypePtr wanted = type;
  if (const auto optional = wanted->cast<c10::OptionalType>()) {
    if (value.isNone()) return value;
    wanted = optional->getElementType();
  }
  if (wanted->kind() == c10::TypeKind::TensorType) {
    if (value.isInt()) return wrapped_number(at::Scalar(value.toInt()));
    if (value.isDouble()) return wrapped_number(at::Scalar(value.toDouble()));
    if (value.isBool()) return wrapped_number(at::Scalar(value.toBool()));
  }
  if (wanted->kind() == c10::TypeKind::FloatType && value.isInt()) return static_cast<double>(value.toInt());
  if (wanted->kind() == c10::TypeKind::ListType && value.isInt())
    return c10::List<std::int64_t>({value.toInt()});  // int[2] given as one int
  return value;
}

// Operators that draw random numbers: found by the tag that PyTorch gives them, and the two composites that reach one.
bool draws(const c10::OperatorHandle& handle) {
  if (handle.hasTag(at::Tag::nondeterministic_seeded)) return true;
  const std::string& name = handle.schema().name();
  return name == "aten::dropout" || name == "aten::dropout_" || name == "aten::alpha_dropout" ||
         name == "aten::feature_dropout" || name == "aten::scaled_dot_product_attention";
}

// SplitMix64: neighbouring (operator, microbatch) pairs get unrelated streams. Steele, Lea, Flood, OOPSLA 2014.
std::uint64_t mixed(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

// The default generator is one per process and shared by rank threads: held from seeding until the draw is done.
std::mutex& generator_lock() {
  static std::mutex lock;
  return lock;
}

[[noreturn]] void cannot(const Operator& op, const std::string& why) {
  throw InputError(fmt::format("operator {} of module '{}': {}", op.target, op.module, why));
}

}  // namespace

OperatorProgram::OperatorProgram(const OperatorGraph& graph, int first, int end, const std::vector<int>& outputs)
    : graph_(&graph), slot_of_tensor_(graph.tensors.size(), -1), outputs_(outputs) {
  std::vector<bool> made(graph.tensors.size(), false);
  for (int index = first; index < end; ++index) {
    nodes_.push_back(compile(graph.operators[static_cast<std::size_t>(index)], index));
    for (const int tensor : graph.operators[static_cast<std::size_t>(index)].outputs)
      made[static_cast<std::size_t>(tensor)] = true;
  }
  for (const int tensor : outputs_) output_slots_.push_back(slot_of(tensor));
  // Values first, then what is kept from step to step, each in graph order.
  for (const bool kept : {false, true}) {
    for (std::size_t tensor = 0; tensor < graph.tensors.size(); ++tensor) {
      const TensorRole role = graph.tensors[tensor].role;
      if (slot_of_tensor_[tensor] < 0 || made[tensor] || (role == TensorRole::Parameter || role == TensorRole::Buffer) != kept)
        continue;
      inputs_.push_back(static_cast<int>(tensor));
      input_slots_.push_back(slot_of_tensor_[tensor]);
    }
  }
  std::vector<bool> alive(static_cast<std::size_t>(slots_), false);  // needed by a later node, or an output
  for (const int slot : output_slots_) alive[static_cast<std::size_t>(slot)] = true;
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    const auto last_use = [&](int slot) {
      if (slot < 0 || alive[static_cast<std::size_t>(slot)]) return;
      alive[static_cast<std::size_t>(slot)] = true;
      node->dead.push_back(slot);
    };
    for (const int slot : node->results) last_use(slot);
    for (const Fill& fill : node->fills) last_use(fill.slot);
  }
}

int OperatorProgram::slot_of(int tensor) {
  int& slot = slot_of_tensor_[static_cast<std::size_t>(tensor)];
  if (slot < 0) slot = slots_++;
  return slot;
}

OperatorProgram::Node OperatorProgram::compile(const Operator& op, int index) {
  const auto dot = op.target.find('.');
  const std::string name = op.target.substr(0, dot), overload = dot == std::string::npos ? "" : op.target.substr(dot + 1);
  const auto found = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!found) cannot(op, "LibTorch has no operator of this name");
  Node node{*found, index, {}, {}, {}, {}, draws(*found)};
  const auto& wanted = found->schema().arguments();
  if (op.arguments.size() > wanted.size())
    cannot(op, fmt::format("{} arguments were given, its schema takes {}", op.arguments.size(), wanted.size()));
  for (std::size_t position = 0; position < wanted.size(); ++position) {
    const int at = static_cast<int>(position);
    if (position >= op.arguments.size()) {
      if (!wanted[position].default_value()) cannot(op, fmt::format("argument '{}' is missing", wanted[position].name()));
      node.arguments.push_back(*wanted[position].default_value());
      continue;
    }
    c10::IValue value;
    std::visit(
        [&](const auto& argument) {
          using T = std::decay_t<decltype(argument)>;
          if constexpr (std::is_same_v<T, TensorRef>) {
            node.fills.push_back({at, -1, slot_of(argument.tensor)});
          } else if constexpr (std::is_same_v<T, TensorList>) {
            for (std::size_t i = 0; i < argument.tensors.size(); ++i)
              if (argument.tensors[i] >= 0) node.fills.push_back({at, static_cast<int>(i), slot_of(argument.tensors[i])});
            value = c10::List<at::Tensor>(std::vector<at::Tensor>(argument.tensors.size()));
          } else if constexpr (std::is_same_v<T, DType>) {
            value = static_cast<std::int64_t>(scalar_type(argument));
          } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
            value = c10::List<std::int64_t>(argument);
          } else if constexpr (!std::is_same_v<T, NoArgument>) {
            value = argument;
          }
        },
        op.arguments[position]);
    node.arguments.push_back(coerce(std::move(value), wanted[position].type()));
  }
  for (const int tensor : op.outputs) node.results.push_back(slot_of(tensor));
  return node;
}

std::vector<at::Tensor> OperatorProgram::run(std::vector<at::Tensor> values, const CallContext& context) const {
  return run(std::move(values), context, nullptr);
}

std::vector<at::Tensor> OperatorProgram::run(std::vector<at::Tensor> values, const CallContext& context,
                                             Observer* observer) const {
  PANPIPE_CHECK(values.size() == inputs_.size(), "one value per input");
  std::vector<c10::IValue> slots(static_cast<std::size_t>(slots_));
  for (std::size_t i = 0; i < values.size(); ++i) slots[static_cast<std::size_t>(input_slots_[i])] = std::move(values[i]);
  torch::jit::Stack stack;
  for (const Node& node : nodes_) {
    stack.assign(node.arguments.begin(), node.arguments.end());
    for (std::size_t i = 0; i < node.fills.size(); ++i) {
      const Fill& fill = node.fills[i];
      c10::IValue& argument = stack[static_cast<std::size_t>(fill.position)];
      if (fill.element < 0) {
        argument = slots[static_cast<std::size_t>(fill.slot)];
      } else {
        if (fill.element == 0 || i == 0 || node.fills[i - 1].position != fill.position) {
          // The compiled list is shared by all calls: filled in a copy.
          argument = argument.toTensorList().copy();
        }
        argument.toTensorList().set(static_cast<std::size_t>(fill.element),
                                    slots[static_cast<std::size_t>(fill.slot)].toTensor());
      }
    }
    if (observer) observer->before(node.index);
    try {
      if (node.random) {
        const std::lock_guard hold(generator_lock());
        at::Generator generator = at::detail::getDefaultCPUGenerator();
        generator.set_current_seed(mixed(
            context.seed ^ mixed(static_cast<std::uint64_t>(context.sample) ^ mixed(static_cast<std::uint64_t>(node.index)))));
        node.handle.callBoxed(stack);
      } else {
        node.handle.callBoxed(stack);
      }
    } catch (const std::exception& error) {
      const Operator& op = graph_->operators[static_cast<std::size_t>(node.index)];
      throw std::runtime_error(fmt::format("operator {} of module '{}' failed: {}", op.target, op.module, error.what()));
    }
    if (observer) observer->after(node.index, stack);
    // An operator that returns a list (split, unbind) has its elements as results.
    if (stack.size() == 1 && stack[0].isTensorList() && !node.results.empty()) {
      const auto list = stack[0].toTensorList();
      for (std::size_t i = 0; i < node.results.size(); ++i)
        if (node.results[i] >= 0) slots[static_cast<std::size_t>(node.results[i])] = list.get(i);
    } else {
      for (std::size_t i = 0; i < node.results.size(); ++i)
        if (node.results[i] >= 0) slots[static_cast<std::size_t>(node.results[i])] = std::move(stack[i]);
    }
    for (const int slot : node.dead) slots[static_cast<std::size_t>(slot)] = c10::IValue();
  }
  std::vector<at::Tensor> results;
  results.reserve(output_slots_.size());
  for (const int slot : output_slots_) results.push_back(slots[static_cast<std::size_t>(slot)].toTensor());
  return results;
}

}  // namespace panpipe::exec
