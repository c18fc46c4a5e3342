// One node of an archive's program: its arguments, its results, and numbers that PyTorch left symbolic.
#include <fmt/format.h>

#include <array>
#include <string_view>

#include "costmodel/workload/archive_program.hpp"

namespace panpipe {
namespace {

constexpr std::string_view kAten = "torch.ops.aten.";
constexpr std::string_view kHigherOrder = "torch.ops.higher_order.";

// Nodes with a graph that only state how its contents run.
bool is_region(std::string_view target) {
  constexpr std::array<std::string_view, 4> kRegions = {"wrap_with_set_grad_enabled", "wrap_with_autocast",
                                                        "wrap_activation_checkpoint", "tag_activation_checkpoint"};
  for (const std::string_view region : kRegions)
    if (target == std::string(kHigherOrder) + std::string(region)) return true;
  return false;
}

// Checks of shapes and values that export already made; shapes are fixed here.
bool is_assertion(std::string_view name) {
  return name.starts_with("_assert") || name.starts_with("sym_constrain") || name.starts_with("_functional_assert");
}

// "torch.ops.aten.add.Tensor" is aten::add.Tensor to the dispatcher; the overload "default" has no name there.
std::string dispatcher_name(std::string_view target) {
  const std::string_view name = target.substr(kAten.size());
  const std::size_t dot = name.rfind('.');
  const std::string_view overload = dot == std::string_view::npos ? "" : name.substr(dot + 1);
  if (overload.empty() || overload == "default") return fmt::format("aten::{}", name.substr(0, dot));
  return fmt::format("aten::{}", name);
}

std::string why_not(std::string_view target) {
  if (target.starts_with(kHigherOrder))
    return "control flow and other higher-order operators have no place in a fixed pipeline; write the module without it";
  if (target.starts_with("torch.ops."))
    return "it belongs to an extension that is not part of LibTorch; write the module with PyTorch's own operators, or "
           "decompose it (run_decompositions) before saving";
  return "this is Python code, not an operator; write the module with PyTorch's own operators";
}

}  // namespace

void ArchiveProgram::translate_node(Scope& scope, const Region& region, const Json& node) {
  const std::string target = document_.text(node, "target", "a node");
  if (is_region(target)) return translate_region(scope, region, node);
  if (translate_number(scope, node)) return;
  if (!target.starts_with(kAten)) {
    unusable(target, module_path(node), why_not(target));
    // Its results get a place, so that the rest can be looked through.
    Operator ignored;
    bind_results(scope, ignored, node);
    graph_.operators.push_back(std::move(ignored));
    return;
  }
  if (is_assertion(std::string_view(target).substr(kAten.size()))) return;
  translate_operator(scope, region, node);
}

// A node with only numbers as results is computed now; sizes are those of the exported microbatch.
bool ArchiveProgram::translate_number(Scope& scope, const Json& node) {
  const std::string target = document_.text(node, "target", "a node"), where = fmt::format("'{}'", target);
  const Json& outputs = document_.list(node, "outputs", where);
  bool all = !outputs.empty();
  for (const Json& output : outputs) all &= document_.tagged(output, where).first.starts_with("as_sym_");
  if (!all) return !target.starts_with(kAten) && outputs.empty() && !target.starts_with("torch.ops.");
  for (const Json& output : outputs) {
    const std::string name = document_.text(*document_.tagged(output, where).second, "as_name", where);
    if (const auto hint = hint_of(scope, name)) {
      scope.numbers[name] = *hint;
      continue;
    }
    if (target.find("sym_size") != std::string::npos) {
      const Json& inputs = document_.list(node, "inputs", where);
      if (inputs.size() == 2) {
        const auto tensor = document_.tagged(document_.member(inputs[0], "arg", where), where);
        const auto dimension = document_.tagged(document_.member(inputs[1], "arg", where), where);
        const Shape& shape = graph_.tensors[tensor_named(scope, *tensor.second, where)].shape;
        const std::int64_t d = document_.integer(*dimension.second, where);
        if (d >= 0 && d < static_cast<std::int64_t>(shape.size())) {
          scope.numbers[name] = shape[d];
          continue;
        }
      }
    }
    unusable(target, module_path(node), "its result depends on the data; shapes must be the same for every microbatch");
    scope.numbers[name] = std::int64_t{1};
  }
  return true;
}

void ArchiveProgram::translate_operator(Scope& scope, const Region& region, const Json& node) {
  const std::string target = document_.text(node, "target", "a node"), where = fmt::format("'{}'", target);
  Operator op;
  op.target = dispatcher_name(target);
  op.module = module_path(node);
  op.recorded = region.recorded;
  op.autocast = region.autocast;
  if (target.ends_with("out") && target.ends_with(".out"))
    unusable(target, op.module, "it writes into an argument named 'out'; use the form that returns its result");
  for (const Json& input : document_.list(node, "inputs", where)) {
    std::string why;
    const std::string name = document_.text(input, "name", where);
    auto argument = argument_of(scope, document_.member(input, "arg", where), where, why);
    if (!why.empty()) unusable(target, op.module, fmt::format("argument '{}' {}", name, why));
    op.arguments.push_back(argument ? std::move(*argument) : Argument(NoArgument{}));
    op.argument_names.push_back(name);
  }
  bind_results(scope, op, node);
  if (op.outputs.empty()) {
    unusable(target, op.module, "it returns nothing; use the form that returns its result");
    return;
  }
  graph_.operators.push_back(std::move(op));
}

void ArchiveProgram::bind_results(Scope& scope, Operator& op, const Json& node) {
  const std::string target = document_.text(node, "target", "a node"), where = fmt::format("'{}'", target);
  bool ended = false;
  for (const Json& output : document_.list(node, "outputs", where)) {
    const auto [tag, value] = document_.tagged(output, where);
    if (tag == "as_none") {
      ended = true;
      continue;
    }
    if ((tag != "as_tensor" && tag != "as_tensors") || ended) {
      unusable(target, module_path(node), fmt::format("a result of kind '{}' is not supported", tag));
      continue;
    }
    if (tag == "as_tensors" && !value->is_array()) document_.fault(fmt::format("a result of {} is not a list", where));
    const auto bind = [&](const Json& named) {
      const std::string name = document_.text(named, "name", where);
      const int made = make_activation(scope, name, module_path(node));
      if (!scope.tensors.emplace(name, made).second) document_.fault(fmt::format("'{}' is made twice", name));
      op.outputs.push_back(made);
    };
    if (tag == "as_tensor")
      bind(*value);
    else
      for (const Json& element : *value) bind(element);
  }
}

int ArchiveProgram::make_activation(const Scope& scope, const std::string& name, const std::string& module) {
  const Json& values = document_.object(*scope.graph, "tensor_values", "the graph");
  std::string why;
  const std::string where = fmt::format("the tensor '{}'", name);
  const ArchiveTensor meta = read_tensor_meta(document_, document_.member(values, name.c_str(), "'tensor_values'"), where, why);
  if (!why.empty()) unusable(where, module, why);
  Tensor& tensor = graph_.tensors.emplace_back();
  tensor.name = name;
  tensor.role = TensorRole::Activation;
  tensor.dtype = meta.dtype;
  tensor.shape = meta.shape;
  tensor.producer = static_cast<int>(graph_.operators.size());
  return static_cast<int>(graph_.tensors.size()) - 1;
}

std::optional<ArchiveProgram::Number> ArchiveProgram::hint_of(const Scope& scope, const std::string& name) const {
  for (const char* table : {"sym_int_values", "sym_float_values", "sym_bool_values"}) {
    const Json* values = document_.find(*scope.graph, table);
    const Json* value = values ? document_.find(*values, name.c_str()) : nullptr;
    if (!value) continue;
    if (const Json* expression = document_.find(*value, "as_expr")) value = document_.find(*expression, "hint");
    if (!value) return std::nullopt;
    if (const Json* whole = document_.find(*value, "as_int")) return Number(document_.integer(*whole, name));
    if (const Json* real = document_.find(*value, "as_float")) return Number(document_.real(*real, name));
    if (const Json* truth = document_.find(*value, "as_bool")) return Number(document_.boolean(*truth, name));
  }
  return std::nullopt;
}

// {"as_name": ...}, {"as_int": ...} and their like.
std::optional<ArchiveProgram::Number> ArchiveProgram::number_of(const Scope& scope, const Json& value,
                                                                const std::string& where) const {
  if (const Json* whole = document_.find(value, "as_int")) return Number(document_.integer(*whole, where));
  if (const Json* real = document_.find(value, "as_float")) return Number(document_.real(*real, where));
  if (const Json* truth = document_.find(value, "as_bool")) return Number(document_.boolean(*truth, where));
  const std::string name = document_.text(value, "as_name", where);
  if (const auto found = scope.numbers.find(name); found != scope.numbers.end()) return found->second;
  return hint_of(scope, name);
}

std::optional<Argument> ArchiveProgram::argument_of(const Scope& scope, const Json& argument, const std::string& where,
                                                    std::string& why) {
  const auto [tag, value] = document_.tagged(argument, where);
  const auto optional_tensor = [&](const Json& one) {
    const auto [kind, tensor] = document_.tagged(one, where);
    return kind == "as_tensor" ? tensor_named(scope, *tensor, where) : -1;
  };
  if (tag == "as_none") return NoArgument{};
  if (tag == "as_tensor") return TensorRef{tensor_named(scope, *value, where)};
  if (tag == "as_optional_tensor") {
    const int tensor = optional_tensor(*value);
    return tensor < 0 ? Argument(NoArgument{}) : Argument(TensorRef{tensor});
  }
  if (tag == "as_tensors" || tag == "as_optional_tensors") {
    if (!value->is_array()) document_.fault(fmt::format("an argument of {} is not a list", where));
    TensorList list;
    for (const Json& one : *value)
      list.tensors.push_back(tag == "as_tensors" ? tensor_named(scope, one, where) : optional_tensor(one));
    return list;
  }
  if (auto number = number_argument(scope, tag, *value, where, why); number || !why.empty()) return number;
  return setting_argument(tag, *value, where, why);
}

std::optional<Argument> ArchiveProgram::number_argument(const Scope& scope, const std::string& tag, const Json& value,
                                                        const std::string& where, std::string& why) {
  if (tag == "as_int") return document_.integer(value, where);
  if (tag == "as_float") return document_.real(value, where);
  if (tag == "as_bool") return document_.boolean(value, where);
  if (tag == "as_sym_int" || tag == "as_sym_float" || tag == "as_sym_bool") {
    const auto number = number_of(scope, value, where);
    if (!number) {
      why = "depends on the data";
      return std::nullopt;
    }
    return std::visit([](auto known) { return Argument(known); }, *number);
  }
  const bool is_list = tag == "as_ints" || tag == "as_floats" || tag == "as_bools" || tag == "as_sym_ints" ||
                       tag == "as_sym_floats" || tag == "as_sym_bools";
  if (!is_list) return std::nullopt;
  if (!value.is_array()) document_.fault(fmt::format("an argument of {} is not a list", where));
  std::vector<std::int64_t> whole;
  std::vector<double> real;
  for (const Json& one : value) {
    if (tag == "as_ints") {
      whole.push_back(document_.integer(one, where));
    } else if (tag == "as_floats") {
      real.push_back(document_.real(one, where));
    } else if (tag == "as_bools") {
      whole.push_back(document_.boolean(one, where) ? 1 : 0);
    } else if (const auto number = number_of(scope, one, where); !number) {
      why = "depends on the data";
    } else if (tag == "as_sym_floats") {
      real.push_back(std::visit([](auto known) { return static_cast<double>(known); }, *number));
    } else if (std::holds_alternative<double>(*number)) {
      document_.fault(fmt::format("a list of {} should hold whole numbers, and has {}", where, std::get<double>(*number)));
    } else {
      whole.push_back(std::visit([](auto known) { return static_cast<std::int64_t>(known); }, *number));
    }
  }
  if (tag == "as_floats" || tag == "as_sym_floats") return real;
  return whole;
}

// Element types, memory formats, layouts, devices, texts: the archive numbers its enumerations in its own way.
std::optional<Argument> ArchiveProgram::setting_argument(const std::string& tag, const Json& value, const std::string& where,
                                                         std::string& why) {
  if (tag == "as_string") {
    if (!value.is_string()) document_.fault(fmt::format("an argument of {} is not a text", where));
    return value.get<std::string>();
  }
  if (tag == "as_scalar_type") {
    const std::int64_t number = document_.integer(value, where);
    if (const auto type = archive_dtype(number)) return *type;
    why = fmt::format("is the element type {}, which is not supported", archive_dtype_name(number));
    return std::nullopt;
  }
  if (tag == "as_memory_format") {
    // schema.py: unknown, contiguous, channels last, channels last 3d, preserve. c10: contiguous, preserve, channels last, ...
    // 3d.
    constexpr std::array<std::int64_t, 5> kFormats = {-1, 0, 2, 3, 1};
    const std::int64_t number = document_.integer(value, where);
    if (number < 1 || number > 4) document_.fault(fmt::format("{} names memory format {}", where, number));
    return kFormats[number];
  }
  if (tag == "as_layout") {
    constexpr std::int64_t kStrided = 7;
    if (document_.integer(value, where) == kStrided) return std::int64_t{0};  // c10::kStrided
    why = "is a sparse layout; make the tensors dense";
    return std::nullopt;
  }
  if (tag == "as_device") return DeviceOfRank{};
  why = fmt::format("is of kind '{}', which is not supported", tag);
  return std::nullopt;
}

}  // namespace panpipe
