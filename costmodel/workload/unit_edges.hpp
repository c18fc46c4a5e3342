// What a model's units read of each other.
#pragma once

#include <vector>

#include "costmodel/workload/graph.hpp"

namespace panpipe {

// A tensor that one unit makes and another reads.
struct UnitEdge {
  int from = 0, to = 0, tensor = 0;
};

// Each tensor once for every unit that reads it, in the order in which the operators do.
std::vector<UnitEdge> unit_edges(const OperatorGraph& graph);

}  // namespace panpipe
