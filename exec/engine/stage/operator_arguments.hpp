// What an operator of a graph is given.
#pragma once

#include <cstddef>
#include <variant>

#include "costmodel/workload/graph.hpp"

namespace panpipe::exec {

// The tensor at a position; -1 where there is none.
inline int tensor_argument(const Operator& op, std::size_t position) {
  const auto* reference = position < op.arguments.size() ? std::get_if<TensorRef>(&op.arguments[position]) : nullptr;
  return reference ? reference->tensor : -1;
}

}  // namespace panpipe::exec
