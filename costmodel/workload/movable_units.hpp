// Which operators move together when a model is cut, and why no cut may stand between two of them.
#pragma once

#include <string>
#include <vector>

#include "costmodel/workload/graph.hpp"

namespace panpipe {

// Per operator, why no cut may stand in front of it; empty where a unit begins.
std::vector<std::string> why_together(const OperatorGraph& graph);

// What is wrong with a cut in front of `place`, a module's path or an operator's number with '#', when that is no unit's name:
// which unit it lies in, and why that stays together. Empty when the graph has no such place.
std::string why_no_cut(const OperatorGraph& graph, const std::string& place);

// The units with their operators and the reasons: for people, and as the document panpipe-units/1.
std::string units_table(const OperatorGraph& graph);
std::string units_json(const OperatorGraph& graph);

}  // namespace panpipe
