// The valid integers in a model's inputs.
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/workload/graph.hpp"

namespace panpipe {

// For each integer tensor of the graph: its consumers accept the values [0, limit) (rows of an embedding, classes of a loss); 0 =
// no limit.
std::vector<std::int64_t> integer_limits(const OperatorGraph& graph);

}  // namespace panpipe
