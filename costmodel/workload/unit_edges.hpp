// The tensors that a model's units pass to each other.
#pragma once

#include <vector>

#include "costmodel/workload/graph.hpp"

namespace panpipe {

// A tensor that one unit makes and another reads. Several edges may have the same `tensor`.
struct UnitEdge {
  int from = 0, to = 0;  // units
  int tensor = -1;       // index in the graph; measured layers number theirs
  Bytes bytes{0};        // on one tensor-parallel rank, unsplit
  bool gradient = true;  // a gradient of the same size flows back
};

// Each tensor once for every unit that reads it, in the order of the reading operators.
std::vector<UnitEdge> unit_edges(const OperatorGraph& graph);

}  // namespace panpipe
