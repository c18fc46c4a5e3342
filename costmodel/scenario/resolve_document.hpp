// Resolves a scenario from a tree that need not come from a file, such as a program's own maps and lists.
#pragma once

#include <string>
#include <vector>

#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

// Like load_scenario. The overrides and the plan file change the tree. Nodes of line 0 have no source line; messages show their
// source's name instead of a file.
Scenario resolve_document(const NodePtr& root, const std::string& name, const std::vector<std::string>& overrides = {},
                          const std::string& plan_file = "");

// The tree of a scenario's file, found as load_scenario finds it, before any change.
NodePtr scenario_document(const std::string& path);

}  // namespace panpipe
