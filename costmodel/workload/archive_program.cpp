// Inputs, outputs and regions of an archive's program; archive_node.cpp translates its nodes.
#include "costmodel/workload/archive_program.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "costmodel/workload/operands.hpp"

namespace panpipe {
namespace {

constexpr std::size_t kMostFaults = 20;

// The module in "key,path,class"; a module that is called twice gets "@1" at its second call.
std::string path_of(std::string_view frame) {
  const std::size_t first = frame.find(',');
  if (first == std::string_view::npos) return "";
  const std::size_t second = frame.find(',', first + 1);
  std::string path(frame.substr(first + 1, second == std::string_view::npos ? second : second - first - 1));
  if (const std::size_t call = path.find('@'); call != std::string::npos) path.resize(call);
  return path;
}

// Tensors of an argument or result: one, or a list of them.
std::vector<const Json*> flat_tensors(const ArchiveDocument& document, const Json& list, const std::string& where) {
  std::vector<const Json*> found;
  for (const Json& item : list) {
    const auto [tag, value] = document.tagged(item, where);
    if (tag == "as_tensors") {
      if (!value->is_array()) document.fault(fmt::format("{} is not a list of tensors", where));
      for (const Json& element : *value) found.push_back(&element);
    } else {
      found.push_back(tag == "as_tensor" ? value : nullptr);
    }
  }
  return found;
}

}  // namespace

std::string module_path(const Json& node) {
  const auto metadata = node.find("metadata");
  if (metadata == node.end() || !metadata->is_object()) return "";
  const auto stack = metadata->find("nn_module_stack");
  if (stack == metadata->end() || !stack->is_string()) return "";
  // Frames from outermost to innermost, separated by ';'.
  const auto& text = stack->get_ref<const std::string&>();
  const std::size_t last = text.rfind(';');
  const std::string_view frame = std::string_view(text).substr(last == std::string::npos ? 0 : last + 1);
  return frame.find("_empty_nn_module_stack") == std::string_view::npos ? path_of(frame) : "";
}

ArchiveProgram::ArchiveProgram(std::string archive, const ArchiveDocument& document, std::map<std::string, Payload> weights,
                               std::map<std::string, Payload> constants)
    : archive_(std::move(archive)), document_(document), weights_(std::move(weights)), constants_(std::move(constants)) {
  graph_.values_file = archive_;
}

OperatorGraph ArchiveProgram::translate() {
  const Json& module = document_.object(document_.root(), "graph_module", "the program");
  Scope scope;
  scope.graph = &document_.object(module, "graph", "'graph_module'");
  read_inputs(scope);
  translate_graph(scope, {});
  read_outputs(scope);
  if (!unusable_.empty()) throw_unusable();
  for (const auto& [value, buffer] : copies_back_) write_back(kept_.at(buffer), value);
  return std::move(graph_);
}

int ArchiveProgram::add_stored(const std::string& name, TensorRole role, const std::map<std::string, Payload>& from) {
  const auto found = from.find(name);
  if (found == from.end()) document_.fault(fmt::format("the values of '{}' are not in the archive", name));
  const Payload& payload = found->second;
  const int index = static_cast<int>(graph_.tensors.size());
  Tensor& tensor = graph_.tensors.emplace_back();
  tensor.name = name;
  tensor.role = role;
  tensor.dtype = payload.tensor.dtype;
  tensor.shape = tensor.full_shape = payload.tensor.shape;
  tensor.requires_gradient = role == TensorRole::Parameter && payload.tensor.requires_gradient;
  tensor.init = "stored";
  tensor.stored = static_cast<int>(graph_.stored.size());
  graph_.stored.push_back(payload.values);
  kept_.emplace(name, index);
  if (!payload.unsupported.empty()) unusable(fmt::format("the tensor '{}'", name), "", payload.unsupported);
  // Names of one place in the archive are one tensor (tied weights).
  const std::string place =
      fmt::format("{} {} {} {} {} {}", payload.entry, payload.tensor.first_element, static_cast<int>(tensor.dtype),
                  fmt::join(tensor.shape, ","), fmt::join(payload.tensor.strides, ","), static_cast<int>(role));
  const auto [first, is_first] = first_with_values_.emplace(place, index);
  if (!is_first && role == TensorRole::Parameter && tensor.elements() > 0) tensor.tied_to = first->second;
  return index;
}

void ArchiveProgram::read_inputs(Scope& scope) {
  const Json& signature =
      document_.object(document_.object(document_.root(), "graph_module", "the program"), "signature", "'graph_module'");
  const Json& specs = document_.list(signature, "input_specs", "'signature'");
  const Json& arguments = document_.list(*scope.graph, "inputs", "the graph");
  if (specs.size() != arguments.size())
    document_.fault(fmt::format("the graph has {} inputs, its signature {}", arguments.size(), specs.size()));
  for (std::size_t i = 0; i < specs.size(); ++i) read_input(scope, specs[i], arguments[i]);
}

void ArchiveProgram::read_input(Scope& scope, const Json& spec, const Json& argument) {
  const auto [kind, value] = document_.tagged(spec, "an input of the signature");
  const auto [tag, given] = document_.tagged(argument, "an input of the graph");
  if (kind == "constant_input") return;  // folded into the operators
  if (kind == "custom_obj" || kind == "token" || tag == "as_custom_obj") {
    unusable("an input that is no tensor", "", "it is a script object or an effect token; leave it out of the exported module");
    return;
  }
  if (tag != "as_tensor") {  // numbers are folded into the operators by their values
    if (tag == "as_sym_int" || tag == "as_sym_float" || tag == "as_sym_bool") return;
    if (kind == "user_input") return;
    document_.fault(fmt::format("an input of kind '{}' is no tensor", kind));
  }
  const std::string name = document_.text(*given, "name", "an input of the graph");
  int index = -1;
  if (kind == "parameter") {
    index = add_stored(document_.text(*value, "parameter_name", "a parameter"), TensorRole::Parameter, weights_);
  } else if (kind == "buffer") {
    const Json* persistent = document_.find(*value, "persistent");
    const bool with_weights = !persistent || document_.boolean(*persistent, "'persistent' of a buffer");
    index =
        add_stored(document_.text(*value, "buffer_name", "a buffer"), TensorRole::Buffer, with_weights ? weights_ : constants_);
  } else if (kind == "tensor_constant") {
    index = add_stored(document_.text(*value, "tensor_constant_name", "a constant"), TensorRole::Buffer, constants_);
  } else if (kind == "user_input") {
    const Json& values = document_.object(*scope.graph, "tensor_values", "the graph");
    std::string why;
    const ArchiveTensor meta = read_tensor_meta(document_, document_.member(values, name.c_str(), "'tensor_values'"),
                                                fmt::format("the input '{}'", name), why);
    if (!why.empty()) unusable(fmt::format("the input '{}'", name), "", why);
    index = static_cast<int>(graph_.tensors.size());
    Tensor& tensor = graph_.tensors.emplace_back();
    tensor.name = name;
    tensor.role = TensorRole::Input;
    tensor.dtype = meta.dtype;
    tensor.shape = meta.shape;
    tensor.requires_gradient = false;
    graph_.inputs.push_back(index);
  } else {
    document_.fault(fmt::format("an input of unknown kind '{}'", kind));
  }
  if (!scope.tensors.emplace(name, index).second) document_.fault(fmt::format("two inputs are named '{}'", name));
}

// The first output of the user's is the loss; programs in functional form return what becomes of their buffers.
void ArchiveProgram::read_outputs(const Scope& scope) {
  const Json& signature =
      document_.object(document_.object(document_.root(), "graph_module", "the program"), "signature", "'graph_module'");
  const std::string advice = "export a module whose first output is the scalar loss (tools/export_model.py adds one)";
  bool found = false;
  for (const Json& spec : document_.list(signature, "output_specs", "'signature'")) {
    const auto [kind, value] = document_.tagged(spec, "an output of the signature");
    if (kind == "user_input_mutation" || kind == "token") continue;
    if (kind == "buffer_mutation") {
      const int tensor = tensor_named(scope, document_.object(*value, "arg", "an output"), "an output");
      const std::string buffer = document_.text(*value, "buffer_name", "an output");
      if (!kept_.count(buffer)) document_.fault(fmt::format("there is no buffer '{}'", buffer));
      copies_back_.emplace_back(tensor, buffer);
      continue;
    }
    if (kind != "user_output" && kind != "loss_output") {
      unusable(fmt::format("an output of kind '{}'", kind), "", "export the forward pass only, without optimizer or backward");
      continue;
    }
    if (found) continue;
    found = true;
    const Json& argument = document_.object(*value, "arg", "an output");
    const Json* tensor = kind == "loss_output" ? &argument : document_.find(argument, "as_tensor");
    if (!tensor) throw InputError(fmt::format("{}: the first output is no tensor; {}", archive_, advice));
    graph_.loss = tensor_named(scope, *tensor, "the first output");
    const Tensor& loss = graph_.tensors[graph_.loss];
    if (loss.elements() != 1 || !differentiable(loss.dtype) || loss.dtype == DType::Complex64)
      throw InputError(fmt::format("{}: the first output has shape [{}] and type {}; {}", archive_, fmt::join(loss.shape, ", "),
                                   name_of(loss.dtype), advice));
    if (loss.role != TensorRole::Activation)
      throw InputError(fmt::format("{}: the first output is not computed but an input; {}", archive_, advice));
  }
  if (!found) throw InputError(fmt::format("{}: the program returns nothing; {}", archive_, advice));
}

// Functional form: the buffer's new value is copied into it after the last read of the old one.
void ArchiveProgram::write_back(int buffer, int value) {
  int after = graph_.tensors[value].producer;
  for (std::size_t i = 0; i < graph_.operators.size(); ++i)
    for_each_operand(graph_.operators[i], [&](int read) {
      if (read == buffer) after = std::max(after, static_cast<int>(i));
    });
  Operator copy;
  copy.target = "aten::copy_";
  copy.arguments = {TensorRef{buffer}, TensorRef{value}};
  copy.recorded = false;
  copy.module = after >= 0 ? graph_.operators[after].module : "";
  Tensor made = graph_.tensors[buffer];
  made.name += " (written)";
  made.role = TensorRole::Activation;
  made.stored = -1;
  made.requires_gradient = false;
  made.producer = after + 1;
  copy.outputs = {static_cast<int>(graph_.tensors.size())};
  for (Tensor& tensor : graph_.tensors)
    if (tensor.producer > after) ++tensor.producer;
  graph_.tensors.push_back(std::move(made));
  graph_.operators.insert(graph_.operators.begin() + after + 1, std::move(copy));
}

void ArchiveProgram::translate_graph(Scope& scope, const Region& region) {
  for (const Json& node : document_.list(*scope.graph, "nodes", "the graph")) translate_node(scope, region, node);
}

// A node that carries a graph: its operators take its place, with what surrounds them noted at each.
void ArchiveProgram::translate_region(Scope& scope, const Region& region, const Json& node) {
  const std::string target = document_.text(node, "target", "a node"), where = fmt::format("'{}'", target);
  const Json& inputs = document_.list(node, "inputs", where);
  Region inside = region;
  std::vector<const Json*> before, given;  // arguments before and behind the graph
  const Json* graph = nullptr;
  for (const Json& input : inputs) {
    const Json& argument = document_.member(input, "arg", where);
    if (const Json* found = document_.find(argument, "as_graph"); found && !graph)
      graph = &document_.object(*found, "graph", where);
    else
      (graph ? given : before).push_back(&argument);
  }
  const auto at = [&](std::size_t i) -> std::pair<std::string, const Json*> {
    if (i >= before.size()) document_.fault(fmt::format("{} lacks an argument", where));
    return document_.tagged(*before[i], where);
  };
  if (!graph) document_.fault(fmt::format("{} holds no graph", where));
  if (target.ends_with("wrap_with_set_grad_enabled")) {
    inside.recorded = document_.boolean(*at(0).second, where);
  } else if (target.ends_with("wrap_with_autocast")) {
    const auto device = at(0), type = at(1);
    if (!device.second->is_string()) document_.fault(fmt::format("the device of {} is not a text", where));
    inside.autocast.reset();
    if (document_.boolean(*at(2).second, where)) {
      Autocast autocast{device.second->get<std::string>(), DType::BFloat16};
      if (type.first == "as_scalar_type")
        autocast.dtype = archive_dtype(document_.integer(*type.second, where)).value_or(DType::BFloat16);
      else if (autocast.device == "cuda")
        autocast.dtype = DType::Float16;  // PyTorch's defaults
      inside.autocast = autocast;
    }
  }
  Scope inner;
  inner.graph = graph;
  inner.numbers = scope.numbers;
  const Json& formal = document_.list(*graph, "inputs", where);
  if (formal.size() != given.size())
    document_.fault(fmt::format("{} passes {} values for {}", where, given.size(), formal.size()));
  for (std::size_t i = 0; i < formal.size(); ++i) {
    const auto [tag, name] = document_.tagged(formal[i], where);
    const auto [actual_tag, actual] = document_.tagged(*given[i], where);
    if (tag == "as_tensor" && actual_tag == "as_tensor") {
      inner.tensors[document_.text(*name, "name", where)] = tensor_named(scope, *actual, where);
    } else if (tag.starts_with("as_sym_")) {
      if (const auto number = number_of(scope, *actual, where)) inner.numbers[document_.text(*name, "as_name", where)] = *number;
    }
  }
  translate_graph(inner, inside);
  const auto results = flat_tensors(document_, document_.list(*graph, "outputs", where), where);
  const auto names = flat_tensors(document_, document_.list(node, "outputs", where), where);
  if (results.size() != names.size())
    document_.fault(fmt::format("{} returns {} values for {}", where, results.size(), names.size()));
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] && results[i]) scope.tensors[document_.text(*names[i], "name", where)] = tensor_named(inner, *results[i], where);
}

int ArchiveProgram::tensor_named(const Scope& scope, const Json& value, const std::string& where) const {
  const std::string name = document_.text(value, "name", where);
  const auto found = scope.tensors.find(name);
  if (found == scope.tensors.end()) document_.fault(fmt::format("{} reads '{}' before it is made", where, name));
  return found->second;
}

void ArchiveProgram::unusable(const std::string& what, const std::string& module, const std::string& why) {
  const auto known = std::find_if(unusable_.begin(), unusable_.end(),
                                  [&](const Unusable& other) { return other.what == what && other.why == why; });
  if (known != unusable_.end())
    ++known->more;
  else
    unusable_.push_back({what, module, why, 0});
}

void ArchiveProgram::throw_unusable() const {
  std::vector<Diagnostic> diagnostics;
  for (const Unusable& one : unusable_) {
    if (diagnostics.size() == kMostFaults) break;
    Diagnostic& diagnostic = diagnostics.emplace_back();
    diagnostic.file = diagnostic.place = archive_;
    diagnostic.message = one.what;
    if (!one.module.empty()) diagnostic.message += fmt::format(" in module '{}'", one.module);
    if (one.more > 0) diagnostic.message += fmt::format(" and {} more", one.more);
    diagnostic.message += ": " + one.why;
  }
  throw InputError(std::move(diagnostics));
}

}  // namespace panpipe
