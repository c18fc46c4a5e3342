// Operators whose result shares its first argument's memory. Cuts (which tensors share memory) and costs (which operators move no
// bytes) ask the same.
#pragma once

#include "costmodel/workload/graph.hpp"

namespace panpipe {

// The first argument's tensor if, as far as the graph shows, the result shares its memory and nothing is moved; else -1.
// IfStridesAllow counts as a view: most are in exported programs, and a copy costs one unseen pass over memory.
int viewed_tensor(const OperatorGraph& graph, const Operator& op);

}  // namespace panpipe
