#include "costmodel/workload/aliases.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <variant>

namespace panpipe {
namespace {

// "aten::squeeze_.dim" as "squeeze"; empty for what is not ATen's.
std::string_view base_name(std::string_view target) {
  if (!target.starts_with("aten::")) return {};
  std::string_view name = target.substr(6);
  name = name.substr(0, name.find('.'));
  if (name.ends_with('_') && !name.ends_with("__")) name.remove_suffix(1);
  return name;
}

// An argument by name; by position where the arguments are the schema's first ones.
template <class T>
std::optional<T> argument(const Operator& op, std::string_view name, std::size_t position) {
  if (!op.argument_names.empty())
    position =
        static_cast<std::size_t>(std::find(op.argument_names.begin(), op.argument_names.end(), name) - op.argument_names.begin());
  const T* value = position < op.arguments.size() ? std::get_if<T>(&op.arguments[position]) : nullptr;
  return value ? std::optional<T>(*value) : std::nullopt;
}

// True if an IfUnchanged operator has nothing to do. Devices are ignored, because a rank computes on one.
bool unchanged(const OperatorGraph& graph, const Operator& op, std::string_view name, const Tensor& in) {
  const Tensor& out = graph.tensors[static_cast<std::size_t>(op.outputs.front())];
  if (name == "cpu" || name == "cuda" || name == "type_as") return in.dtype == out.dtype;
  // (self, dtype, non_blocking, copy, memory_format); the other overloads come from archives, which name their arguments.
  if (name == "to") return in.dtype == out.dtype && !argument<bool>(op, "copy", 3).value_or(false);
  if (name == "resolve_conj" || name == "resolve_neg") return in.dtype != DType::Complex64;
  // (input, p, train)
  if (name.ends_with("dropout"))
    return !argument<bool>(op, "train", 2).value_or(true) || argument<double>(op, "p", 1).value_or(1) == 0 ||
           argument<std::int64_t>(op, "p", 1).value_or(1) == 0;
  return false;  // pad, rrelu
}

}  // namespace

Aliasing aliasing_of(std::string_view target) {
  static const std::unordered_map<std::string_view, Aliasing> kAliasing = [] {
    std::unordered_map<std::string_view, Aliasing> table;
    for (const std::string_view name : {"_reshape_alias",
                                        "_unsafe_view",
                                        "adjoint",
                                        "alias",
                                        "as_strided",
                                        "atleast_1d",
                                        "atleast_2d",
                                        "atleast_3d",
                                        "broadcast_to",
                                        "chunk",
                                        "conj",
                                        "detach",
                                        "diagonal",
                                        "dsplit",
                                        "expand",
                                        "expand_as",
                                        "hsplit",
                                        "identity",
                                        "imag",
                                        "lift_fresh",
                                        "mH",
                                        "mT",
                                        "matrix_H",
                                        "moveaxis",
                                        "movedim",
                                        "narrow",
                                        "numpy_T",
                                        "permute",
                                        "positive",
                                        "real",
                                        "select",
                                        "slice",
                                        "split",
                                        "split_with_sizes",
                                        "squeeze",
                                        "swapaxes",
                                        "swapdims",
                                        "t",
                                        "T",
                                        "tensor_split",
                                        "transpose",
                                        "unbind",
                                        "unflatten",
                                        "unfold",
                                        "unsafe_chunk",
                                        "unsafe_split",
                                        "unsqueeze",
                                        "view",
                                        "view_as",
                                        "view_as_complex",
                                        "view_as_real",
                                        "vsplit"})
      table[name] = Aliasing::View;
    for (const std::string_view name : {"contiguous", "flatten", "ravel", "reshape", "reshape_as"})
      table[name] = Aliasing::IfStridesAllow;
    for (const std::string_view name : {"alpha_dropout", "cpu", "cuda", "dropout", "feature_dropout", "pad", "resolve_conj",
                                        "resolve_neg", "rrelu", "to", "type_as"})
      table[name] = Aliasing::IfUnchanged;
    return table;
  }();
  const auto found = kAliasing.find(base_name(target));
  return found == kAliasing.end() ? Aliasing::Never : found->second;
}

int viewed_tensor(const OperatorGraph& graph, const Operator& op) {
  const Aliasing aliasing = aliasing_of(op.target);
  const auto* first = op.arguments.empty() ? nullptr : std::get_if<TensorRef>(&op.arguments.front());
  if (op.target == kContextKeys && first != nullptr) return first->tensor;
  if (aliasing == Aliasing::Never || first == nullptr) return -1;
  if (aliasing == Aliasing::IfUnchanged &&
      !unchanged(graph, op, base_name(op.target), graph.tensors[static_cast<std::size_t>(first->tensor)]))
    return -1;
  return first->tensor;
}

}  // namespace panpipe
