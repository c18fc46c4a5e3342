// Edits the tree of a scenario before it is read: overrides and the decisions of a plan file.
#pragma once

#include <string>
#include <vector>

#include "base/input/yaml_document.hpp"

namespace panpipe {

// "KEY=VALUE" each. Throws InputError with all faults.
void apply_overrides(Node& root, const std::vector<std::string>& overrides);

// The scenario keys that a plan file decides. Faults are not reported here: the readers of both files do that.
void apply_plan_keys(Node& root, const Node& plan);

// Degrees and batch that overrides left open (`parallel={}`, `parallel.data=auto`) are the plan's.
void fill_open_keys(Node& root, const Node& plan);

}  // namespace panpipe
