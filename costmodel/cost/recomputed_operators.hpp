// Which operators of a graph the backward makes again under `recompute: selective`, lists of operators and of modules: the rule
// that prices them, for whoever runs them.
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/scenario/scenario.hpp"
#include "costmodel/workload/graph.hpp"

namespace panpipe {

enum class MadeAgain : std::uint8_t {
  Nothing,
  Result,  // the result is not kept, nor what the operator itself keeps for its backward
  Inside,  // the result is kept, what the operator itself keeps for its backward is not (attention)
};

// Per operator, as if all blocks were under selective recompute (`every` and `first` choose among blocks, not among operators).
// Throws InputError where a listed module is not in the graph.
std::vector<MadeAgain> recomputed_operators(const OperatorGraph& graph, const RecomputeScope& scope);

}  // namespace panpipe
