#include "exec/engine/stage/operator_program.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/scalar_tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "base/error.hpp"
#include "base/index.hpp"
#include "exec/engine/mixed_bits.hpp"
#include "exec/engine/slices/attended_sequence.hpp"
#include "exec/engine/stage/autocast_region.hpp"
#include "exec/engine/stage/own_operators.hpp"
#include "exec/engine/stage/recomputation.hpp"
#include "exec/engine/stage/scalar_types.hpp"
#include "exec/engine/stage/stack_tensors.hpp"
#include "exec/engine/stage/torch_error.hpp"
#include "exec/engine/stage/weight_copies.hpp"
#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {
namespace {

// A number where the schema wants a tensor is a wrapped number: a 0-dim tensor that does not take part in type promotion.
at::Tensor wrapped_number(const at::Scalar& value) {
  at::Tensor tensor = at::scalar_tensor(value, at::TensorOptions().dtype(value.isFloatingPoint() ? at::kDouble : at::kLong));
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

template <class Element>
c10::List<Element> list_of(const std::vector<std::int64_t>& numbers) {
  c10::List<Element> list;
  for (const std::int64_t one : numbers) list.push_back(static_cast<Element>(one));
  return list;
}

// The schema's type decides what a literal becomes; the graph's literals are as the model's author wrote them.
c10::IValue coerce_list(c10::IValue value, const c10::TypePtr& element) {
  if (element->kind() == c10::TypeKind::BoolType && value.isIntList()) return list_of<bool>(value.toIntVector());
  if (element->kind() == c10::TypeKind::FloatType && value.isIntList()) return list_of<double>(value.toIntVector());
  if (element->kind() == c10::TypeKind::FloatType && value.isDouble()) return c10::List<double>({value.toDouble()});
  if (element->kind() == c10::TypeKind::OptionalType && value.isTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    list.resize(value.toTensorList().size());
    return list;
  }
  if (value.isInt()) return c10::List<std::int64_t>({value.toInt()});  // int[2] given as one int
  return value;
}

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
  if (wanted->kind() == c10::TypeKind::ListType)
    return coerce_list(std::move(value), wanted->expectRef<c10::ListType>().getElementType());
  return value;
}

// The default generator is one per process and shared by rank threads: held from seeding until the draw is done.
std::mutex& generator_lock() {
  static std::mutex lock;
  return lock;
}

// Arguments by which PyTorch's operators distinguish training from evaluation. A normalization without running statistics has no
// such argument.
std::vector<std::pair<int, c10::IValue>> outside_training(const c10::FunctionSchema& schema, const Operator& op,
                                                          const std::vector<int>& given) {
  const auto statistics = schema.argumentIndexWithName("running_mean");
  const int own = statistics ? given[*statistics] : -1;
  const bool learns = own >= 0 && std::holds_alternative<TensorRef>(op.arguments[own]);
  std::vector<std::pair<int, c10::IValue>> arguments;
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const std::string& name = schema.arguments()[i].name();
    if (name == "dropout_p") arguments.emplace_back(static_cast<int>(i), 0.0);
    if (name == "train" || (name == "training" && (learns || !statistics))) arguments.emplace_back(static_cast<int>(i), false);
  }
  return arguments;
}

[[noreturn]] void cannot(const Operator& op, const std::string& why) {
  throw InputError(fmt::format("operator {} of module '{}': {}", op.target, op.module, why));
}

// Where ranks exchange heads, the query has this rank's part of them alone.
void take_own_heads(const OperatorRow& attention, torch::jit::Stack& stack, int member) {
  const std::int64_t heads = stack[panpipe::at(attention.position("query"))].toTensor().size(1);
  for (const int position : attention.by_head)
    if (c10::IValue& numbers = stack[panpipe::at(position)]; numbers.isTensor() && numbers.toTensor().size(0) != heads)
      numbers = numbers.toTensor().narrow(0, heads * member, heads);
}

// Per argument of the schema: which of the operator's it is, -1 where the schema's default holds.
std::vector<int> given_arguments(const Operator& op, const c10::FunctionSchema& schema) {
  std::vector<int> given(schema.arguments().size(), -1);
  for (std::size_t i = 0; i < op.arguments.size(); ++i) {
    if (op.argument_names.empty()) {
      given[i] = static_cast<int>(i);
      continue;
    }
    const auto position = schema.argumentIndexWithName(op.argument_names[i]);
    if (!position) cannot(op, fmt::format("its schema has no argument '{}'", op.argument_names[i]));
    given[*position] = static_cast<int>(i);
  }
  return given;
}

}  // namespace

OperatorProgram::OperatorProgram(const OperatorGraph& graph, int first, int end, const std::vector<int>& outputs,
                                 at::Device device)
    : graph_(&graph), device_(device), slot_of_tensor_(graph.tensors.size(), -1), outputs_(outputs) {
  register_own_operators();
  std::vector<bool> made(graph.tensors.size(), false);
  for (int index = first; index < end; ++index) {
    nodes_.push_back(compile(graph.operators[index], index));
    for (const int tensor : graph.operators[index].outputs) made[tensor] = true;
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
  std::vector<bool> alive(slots_, false);  // needed by a later node, or an output
  for (const int slot : output_slots_) alive[slot] = true;
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    const auto last_use = [&](int slot) {
      if (slot < 0 || alive[slot]) return;
      alive[slot] = true;
      node->dead.push_back(slot);
    };
    for (const int slot : node->results) last_use(slot);
    for (const Fill& fill : node->fills) last_use(fill.slot);
  }
}

int OperatorProgram::slot_of(int tensor) {
  int& slot = slot_of_tensor_[tensor];
  if (slot < 0) slot = slots_++;
  return slot;
}

// An argument that is known beforehand; tensors are noted to be filled in.
c10::IValue OperatorProgram::literal(Node& node, int position, const Argument& argument) {
  c10::IValue value;
  std::visit(
      [&](const auto& given) {
        using T = std::decay_t<decltype(given)>;
        if constexpr (std::is_same_v<T, TensorRef>) {
          const Tensor& tensor = graph_->tensors[given.tensor];
          const bool weight = tensor.role == TensorRole::Parameter && tensor.dtype == DType::Float32;
          node.fills.push_back({position, -1, slot_of(given.tensor), weight ? given.tensor : -1});
        } else if constexpr (std::is_same_v<T, TensorList>) {
          for (std::size_t i = 0; i < given.tensors.size(); ++i)
            if (given.tensors[i] >= 0) node.fills.push_back({position, static_cast<int>(i), slot_of(given.tensors[i])});
          value = c10::List<at::Tensor>(std::vector<at::Tensor>(given.tensors.size()));
        } else if constexpr (std::is_same_v<T, DType>) {
          value = static_cast<std::int64_t>(scalar_type(given));
        } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
          value = c10::List<std::int64_t>(given);
        } else if constexpr (std::is_same_v<T, std::vector<double>>) {
          value = c10::List<double>(given);
        } else if constexpr (std::is_same_v<T, DeviceOfRank>) {
          value = device_;
        } else if constexpr (!std::is_same_v<T, NoArgument>) {
          value = given;
        }
      },
      argument);
  return value;
}

OperatorProgram::Node OperatorProgram::compile(const Operator& op, int index) {
  const auto dot = op.target.find('.');
  const std::string name = op.target.substr(0, dot), overload = dot == std::string::npos ? "" : op.target.substr(dot + 1);
  const auto found = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!found) cannot(op, "LibTorch has no operator of this name");
  const OperatorRow& row = row_of(op);
  const bool draws = row.traits.draws || found->hasTag(at::Tag::nondeterministic_seeded);
  Node node{*found, index, {}, {}, {}, {}, draws, !op.recorded || op.autocast.has_value(), &row, false, false, {}, {}, {}};
  const auto& wanted = found->schema().arguments();
  if (op.arguments.size() > wanted.size())
    cannot(op, fmt::format("{} arguments were given, its schema takes {}", op.arguments.size(), wanted.size()));
  const std::vector<int> given = given_arguments(op, found->schema());
  node.evaluation = outside_training(found->schema(), op, given);
  for (std::size_t position = 0; position < wanted.size(); ++position) {
    if (given[position] < 0) {
      if (!wanted[position].default_value()) cannot(op, fmt::format("argument '{}' is missing", wanted[position].name()));
      node.arguments.push_back(*wanted[position].default_value());
      continue;
    }
    const Argument& argument = op.arguments[given[position]];
    const auto* tensor = std::get_if<TensorRef>(&argument);
    if (tensor && graph_->tensors[tensor->tensor].written)
      node.state.push_back(static_cast<int>(position));
    else if (wanted[position].alias_info() && wanted[position].alias_info()->isWrite())
      node.writes.push_back(static_cast<int>(position));
    c10::IValue value = literal(node, static_cast<int>(position), argument);
    node.arguments.push_back(coerce(std::move(value), wanted[position].type()));
  }
  // Rows whose numbers did not come over ranks: then they are on the host already.
  const auto is_arrived = [&](const Fill& fill) { return wanted[fill.position].name() == "arrived"; };
  node.reads = row.role == OperatorRole::ExpertProduct && std::none_of(node.fills.begin(), node.fills.end(), is_arrived);
  for (const int tensor : op.outputs) node.results.push_back(slot_of(tensor));
  node.lowers = !node.surrounded && row.traits.autocast;  // a region of the author's has a type of its own
  for (Fill& fill : node.fills) {
    if (!node.lowers) fill.weight = -1;
    if (fill.weight >= 0) lowered_weights_.push_back(fill.weight);
  }
  return node;
}

// Attention of samples that share a sequence, each to itself: a block-diagonal mask, without the work of what it masks.
void OperatorProgram::call_for_samples(const Node& node, CallContext context, torch::jit::Stack& stack) const {
  constexpr std::int64_t kTokens = 2;  // dimension of (samples, heads, tokens, features)
  const std::vector<std::int64_t> samples = *std::exchange(context.samples, nullptr);
  std::vector<at::Tensor> parts;
  std::int64_t first = 0;
  for (const std::int64_t length : samples) {
    torch::jit::Stack own = stack;
    for (const std::string_view operand : {"query", "key", "value"}) {
      c10::IValue& argument = own[panpipe::at(node.row->position(operand))];
      argument = argument.toTensor().narrow(kTokens, first, length);
    }
    if (const int mask = node.row->position("attn_mask"); mask >= 0 && own[panpipe::at(mask)].isTensor())
      own[panpipe::at(mask)] = own[panpipe::at(mask)].toTensor().narrow(-2, first, length).narrow(-1, first, length);
    call(node, context, own);
    parts.push_back(own.front().toTensor());
    context.seed = mixed_bits(context.seed);  // each draws its own
    first += length;
  }
  stack.assign(1, at::cat(parts, kTokens));
}

// Random operators draw the same whenever and wherever they are called for this operator and sample. A region of the model's
// author is one of no_grad, or of autocast.
void OperatorProgram::call(const Node& node, const CallContext& context, torch::jit::Stack& stack) const {
  if (node.row->role == OperatorRole::Attention && context.samples != nullptr && !context.samples->empty())
    return call_for_samples(node, context, stack);
  if (node.reads && context.before_reading && !device_.is_cpu()) (*context.before_reading)();
  std::unique_lock<std::mutex> hold;
  if (node.random) {
    hold = std::unique_lock(generator_lock());
    at::Generator generator =
        device_.is_cpu() ? at::detail::getDefaultCPUGenerator() : at::globalContext().defaultGenerator(device_);
    generator.set_current_seed(
        // Neighbouring (operator, microbatch) pairs get unrelated streams.
        mixed_bits(context.seed ^
                   mixed_bits(static_cast<std::uint64_t>(context.sample) ^ mixed_bits(static_cast<std::uint64_t>(node.index)))));
  }
  if (!node.surrounded) return node.handle.callBoxed(stack);
  const Operator& op = graph_->operators[node.index];
  const at::AutoGradMode records(op.recorded && at::GradMode::is_enabled());
  std::optional<AutocastRegion> region;
  if (op.autocast) region.emplace(scalar_type(op.autocast->dtype), op.autocast->device == "cuda" ? at::kCUDA : at::kCPU);
  node.handle.callBoxed(stack);
}

void OperatorProgram::call_again(int index, const CallContext& context, torch::jit::Stack& stack) const {
  const Node& node = nodes_[index - nodes_.front().index];
  for (const int position : node.state) {
    c10::IValue& argument = stack[position];
    argument = argument.toTensor().detach().clone();
  }
  const AutocastRegion region(context.autocast, device_.type());  // a backward stands in none
  call(node, context, stack);
}

void OperatorProgram::fill_stack(const Node& node, const Slots& slots, const CallContext& context,
                                 torch::jit::Stack& stack) const {
  stack.assign(node.arguments.begin(), node.arguments.end());
  for (c10::IValue& argument : stack)
    if (holds_tensors(argument)) argument = emptied(argument);  // the compiled list is shared by all calls
  for (const Fill& fill : node.fills)
    if (fill.element < 0)
      stack[fill.position] = slots[fill.slot];
    else
      put(stack[fill.position], fill.element, slots[fill.slot].toTensor());
  if (context.evaluates)
    for (const auto& [position, value] : node.evaluation) stack[position] = value;
}

void OperatorProgram::run(const Node& node, const CallContext& context, torch::jit::Stack& stack) const {
  if (context.copies)
    for (const Fill& fill : node.fills)
      if (fill.weight >= 0) stack[fill.position] = context.copies->stand_in(stack[fill.position].toTensor());
  const bool attends = node.row->role == OperatorRole::Attention, shares = attends && context.slice && context.slice->partners;
  if (attends && !shares) {
    if (context.slice) context.slice->sequence->attend(node.index, context.slice->index, *node.row, stack);
    take_own_heads(*node.row, stack, context.context_member);
  }
  const auto called = [&] {
    shares ? stack.assign(1, context.slice->attend_with_partners(node.index, *node.row, stack)) : call(node, context, stack);
  };
  if (context.recomputation)
    context.recomputation->around(node.index, node.writes, node.lowers ? context.autocast : std::nullopt, stack, called);
  else
    called();
}

std::vector<at::Tensor> OperatorProgram::run(std::vector<at::Tensor> values, const CallContext& context) const {
  PANPIPE_CHECK(values.size() == inputs_.size(), "one value per input");
  Slots slots(slots_);
  for (std::size_t i = 0; i < values.size(); ++i) slots[input_slots_[i]] = std::move(values[i]);
  torch::jit::Stack stack;
  for (const Node& node : nodes_) {
    fill_stack(node, slots, context, stack);
    if (context.observer) context.observer->before(node.index);
    try {
      run(node, context, stack);
    } catch (const PeerLost&) {  // of an operator that waits for other ranks or for the device
      throw;
    } catch (const InputError&) {  // of another rank, by which such a wait ends
      throw;
    } catch (const std::exception& error) {
      const Operator& op = graph_->operators[node.index];
      throw std::runtime_error(fmt::format("operator {} of module '{}' failed: {}", op.target, op.module, text_of(error)));
    }
    if (context.observer) context.observer->after(node.index, stack);
    // An operator that returns a list (split, unbind) has its elements as results.
    if (stack.size() == 1 && stack[0].isTensorList() && !node.results.empty()) {
      const std::vector<at::Tensor> list = stack[0].toTensorVector();
      PANPIPE_CHECK(list.size() >= node.results.size(), "an element for each result");
      stack.assign(list.begin(), list.end());
    }
    for (std::size_t i = 0; i < node.results.size(); ++i)
      if (node.results[i] >= 0) slots[node.results[i]] = std::move(stack[i]);
    for (const int slot : node.dead) slots[slot] = c10::IValue();
  }
  std::vector<at::Tensor> results;
  results.reserve(output_slots_.size());
  for (std::size_t i = 0; i < output_slots_.size(); ++i) {
    at::Tensor value = slots[output_slots_[i]].toTensor();
    // Results have the type that the graph states, also where autocast changed it.
    const at::ScalarType stated = scalar_type(graph_->tensors[outputs_[i]].dtype);
    results.push_back(value.scalar_type() == stated ? std::move(value) : value.to(stated));
  }
  return results;
}

}  // namespace panpipe::exec
