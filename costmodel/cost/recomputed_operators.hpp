// The operators of a graph that the backward recomputes under `recompute: selective`, lists of operators and of modules. Pricing
// and execution share this rule.
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/scenario/scenario.hpp"
#include "costmodel/workload/graph.hpp"

namespace panpipe {

enum class RecomputedPart : std::uint8_t {
  Nothing,
  Result,  // neither the result nor the operator's own data for its backward is kept
  Inside,  // the result is kept, but not the operator's own data for its backward (attention)
};

// One entry per operator, as if all blocks used selective recompute (`every` and `first` choose blocks, not operators). Throws
// InputError if a listed module is not in the graph.
std::vector<RecomputedPart> recomputed_operators(const OperatorGraph& graph, const RecomputeScope& scope);

}  // namespace panpipe
