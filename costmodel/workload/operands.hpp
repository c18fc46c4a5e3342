// The input tensors of an operator.
#pragma once

#include <variant>
#include <vector>

#include "costmodel/workload/graph.hpp"

namespace panpipe {

// Calls visit(tensor index) for each, in the order of the arguments, which it may change where they are not const.
template <class Arguments, class Visit>
void for_each_tensor(Arguments& arguments, Visit visit) {
  for (auto& argument : arguments) {
    if (auto* ref = std::get_if<TensorRef>(&argument)) visit(ref->tensor);
    if (auto* list = std::get_if<TensorList>(&argument))
      for (auto& tensor : list->tensors)
        if (tensor >= 0) visit(tensor);
  }
}
template <class Visit>
void for_each_operand(const Operator& op, Visit visit) {
  for_each_tensor(op.arguments, visit);
}
template <class Visit>
void for_each_operand(Operator& op, Visit visit) {
  for_each_tensor(op.arguments, visit);
}

template <class Holds>
bool any_operand(const Operator& op, Holds holds) {
  bool any = false;
  for_each_operand(op, [&](int tensor) { any = any || holds(tensor); });
  return any;
}
// -1: none.
inline int first_operand(const Operator& op) {
  int first = -1;
  for_each_operand(op, [&](int tensor) { first = first < 0 ? tensor : first; });
  return first;
}

}  // namespace panpipe
