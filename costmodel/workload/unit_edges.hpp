// What a model's units read of each other.
#pragma once

#include <vector>

#include "costmodel/workload/graph.hpp"

namespace panpipe {

// A tensor that one unit makes and another reads. Several edges with one `tensor` are one tensor.
struct UnitEdge {
  int from = 0, to = 0;  // units
  int tensor = -1;       // of the graph; measured layers number theirs
  Bytes bytes{0};        // on one tensor-parallel rank, unsplit
  bool gradient = true;  // a gradient of the same size flows back
};

// Each tensor once for every unit that reads it, in the order in which the operators do.
std::vector<UnitEdge> unit_edges(const OperatorGraph& graph);

}  // namespace panpipe
