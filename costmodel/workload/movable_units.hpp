// The operators that stay together when a model is cut, and the reasons.
#pragma once

#include <string>
#include <vector>

#include "costmodel/workload/graph.hpp"

namespace panpipe {

// Per operator, the reason why no cut may precede it; empty where a unit begins.
std::vector<std::string> why_together(const OperatorGraph& graph);

// Explains why a cut before `place` is impossible: the unit that contains it, and why that stays together. `place` is a module's
// path or an operator's number with '#'. Empty if the graph has no such place.
std::string why_no_cut(const OperatorGraph& graph, const std::string& place);

// The units with their operators and the reasons: as a table, and as the document panpipe-units/1.
std::string units_table(const OperatorGraph& graph);
std::string units_json(const OperatorGraph& graph);

}  // namespace panpipe
