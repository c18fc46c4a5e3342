// Which integers a model's inputs may hold.
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/workload/graph.hpp"

namespace panpipe {

// For each graph tensor of integers: the values [0, limit) that its consumers accept (rows of an embedding, classes of a loss);
// 0 = nothing limits it.
std::vector<std::int64_t> integer_limits(const OperatorGraph& graph);

}  // namespace panpipe
