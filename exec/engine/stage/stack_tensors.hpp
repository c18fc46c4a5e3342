// The tensors among an operator's arguments or results, alone or in lists.
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <utility>
#include <vector>

namespace panpipe::exec {

// Calls visit(tensor, its place in a list or -1) for each that is defined.
template <class Visit>
void for_each_tensor(const c10::IValue& value, Visit visit) {
  const auto visit_list = [&](const auto& list) {
    for (std::size_t i = 0; i < list.size(); ++i)
      if (const std::optional<at::Tensor> one = list.get(i); one && one->defined()) visit(*one, static_cast<int>(i));
  };
  if (value.isTensor() && value.toTensor().defined()) visit(value.toTensor(), -1);
  if (value.isTensorList()) visit_list(value.toTensorList());
  if (value.isOptionalTensorList()) visit_list(value.toOptionalTensorList());
}

inline std::vector<at::Tensor> tensors_of(const std::vector<c10::IValue>& stack) {
  std::vector<at::Tensor> found;
  for (const c10::IValue& value : stack) for_each_tensor(value, [&](const at::Tensor& one, int) { found.push_back(one); });
  return found;
}

inline bool holds_tensors(const c10::IValue& value) { return value.isTensorList() || value.isOptionalTensorList(); }

// A list of its own, of as many undefined tensors.
inline c10::IValue emptied(const c10::IValue& list) {
  if (list.isTensorList()) return c10::List<at::Tensor>(std::vector<at::Tensor>(list.toTensorList().size()));
  c10::List<std::optional<at::Tensor>> made;
  made.resize(list.toOptionalTensorList().size());
  return made;
}

// `element`: in a list, else -1.
inline void put(c10::IValue& argument, int element, at::Tensor tensor) {
  if (element < 0)
    argument = std::move(tensor);
  else if (argument.isTensorList())
    argument.toTensorList().set(static_cast<std::size_t>(element), tensor);
  else
    argument.toOptionalTensorList().set(static_cast<std::size_t>(element), tensor);
}

}  // namespace panpipe::exec
