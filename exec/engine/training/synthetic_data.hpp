// Seeded data in the shapes of the graph's inputs: the same for a sample in every placement.
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/workload/graph.hpp"
#include "exec/engine/worker.hpp"

namespace panpipe::exec {

// For each graph tensor of integers: the values [0, limit) that its consumers accept (rows of an embedding, classes of a loss);
// 0 = nothing limits it.
std::vector<std::int64_t> integer_limits(const OperatorGraph& graph);

DataSource synthetic_data(const OperatorGraph& graph, std::uint64_t seed);

}  // namespace panpipe::exec
