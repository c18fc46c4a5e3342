// A scenario from a tree that need not come from a file: a program's own maps and lists, say.
#pragma once

#include <string>
#include <vector>

#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

// As load_scenario. The tree is changed by what the overrides and the plan file say. Nodes of line 0 have no lines to show;
// their source's name stands for the file.
Scenario resolve_document(const NodePtr& root, const std::string& name, const std::vector<std::string>& overrides = {},
                          const std::string& plan_file = "");

}  // namespace panpipe
