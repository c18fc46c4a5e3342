// The tensors that an operator reads.
#pragma once

#include "costmodel/workload/graph.hpp"

namespace panpipe {

// Calls visit(tensor index) for every one, in the order of the arguments.
template <class Visit>
void for_each_operand(const Operator& op, Visit visit) {
  for (const Argument& argument : op.arguments) {
    if (const auto* ref = std::get_if<TensorRef>(&argument)) visit(ref->tensor);
    if (const auto* list = std::get_if<TensorList>(&argument))
      for (const int tensor : list->tensors)
        if (tensor >= 0) visit(tensor);
  }
}

}  // namespace panpipe
