// The input tensors of an operator.
#pragma once

#include <variant>
#include <vector>

#include "costmodel/workload/graph.hpp"

namespace panpipe {

// Calls visit(tensor index) for each, in the order of the arguments.
template <class Visit>
void for_each_operand(const std::vector<Argument>& arguments, Visit visit) {
  for (const Argument& argument : arguments) {
    if (const auto* ref = std::get_if<TensorRef>(&argument)) visit(ref->tensor);
    if (const auto* list = std::get_if<TensorList>(&argument))
      for (const int tensor : list->tensors)
        if (tensor >= 0) visit(tensor);
  }
}
template <class Visit>
void for_each_operand(const Operator& op, Visit visit) {
  for_each_operand(op.arguments, visit);
}

}  // namespace panpipe
