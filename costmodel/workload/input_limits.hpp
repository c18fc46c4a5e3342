// The valid integers in a model's inputs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "costmodel/workload/graph.hpp"

namespace panpipe {

// The values [0, limit) (rows of an embedding, classes of a loss); 0 = no limit.
struct IntegerRange {
  std::int64_t limit = 0;
  std::optional<std::int64_t> ignored{};  // a label that all its consumers leave out, inside the range or not
};

// For each integer tensor of the graph: the values that its consumers accept.
std::vector<IntegerRange> integer_ranges(const OperatorGraph& graph);

}  // namespace panpipe
