// Operators whose result shares its first argument's memory. Cuts (which tensors share memory) and costs (which operators move no
// bytes) use the same list.
#pragma once

#include <cstdint>
#include <string_view>

#include "costmodel/workload/graph.hpp"

namespace panpipe {

// Keys or values of the whole sequence, gathered from the context-parallel ranks. The attention that reads them exchanges them,
// and its backward does so again, so a rank keeps only its own.
inline constexpr std::string_view kContextKeys = "panpipe::context_keys";

enum class Aliasing : std::uint8_t {
  Never,
  View,            // always
  IfStridesAllow,  // reshape, contiguous: a view, or a copy if the memory layout differs. Graphs do not contain strides.
  IfUnchanged,     // to, dropout: the argument itself if there is nothing to do, else a new tensor
};

// Uses the operator's name; overload and in-place form ("aten::squeeze_.dim") do not matter.
Aliasing aliasing_of(std::string_view target);

// The first argument's tensor if, as far as the graph shows, the result shares its memory and nothing is moved; else -1.
// IfStridesAllow counts as a view: most are in exported programs, and a copy costs one unseen pass over memory.
int viewed_tensor(const OperatorGraph& graph, const Operator& op);

}  // namespace panpipe
