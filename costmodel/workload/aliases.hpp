// Operators whose result looks at their first argument's memory. One list, for cuts (what may share memory) and costs (what moves
// nothing).
#pragma once

#include <cstdint>
#include <string_view>

#include "costmodel/workload/graph.hpp"

namespace panpipe {

// Keys or values of the whole sequence, made of a context-parallel rank's own: the attention that reads them exchanges them, and
// its backward does again, so that a rank keeps its own.
inline constexpr std::string_view kContextKeys = "panpipe::context_keys";

enum class Aliasing : std::uint8_t {
  Never,
  View,            // always
  IfStridesAllow,  // reshape, contiguous: a view, or a copy where memory does not lie as wanted. Graphs know no strides.
  IfUnchanged,     // to, dropout: the argument itself where there is nothing to do, a new tensor otherwise
};

// By the operator's name; overload and in-place form ("aten::squeeze_.dim") do not matter.
Aliasing aliasing_of(std::string_view target);

// Where the result looks at the first argument's memory as far as the graph tells, so that nothing is moved: that argument's
// tensor; else -1. IfStridesAllow counts as a view: in exported programs most are, and a copy costs one pass that is not seen.
int viewed_tensor(const OperatorGraph& graph, const Operator& op);

}  // namespace panpipe
