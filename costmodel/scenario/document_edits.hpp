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

// What overrides left open of all that a plan decides is the file's; `file` is its tree without overrides.
void keep_stated_plan(Node& root, const Node& file);

// All that a plan decides is the file's again, where it states degrees: overrides of it then narrow what `--open` searches.
void restore_stated_plan(Node& root, const Node& file);

// What a search is to choose though the file states it.
struct OpenedKeys {
  bool degrees = true;   // with microbatch and placement; else only schedule, cuts and recompute
  bool sizes = true;     // also the degrees and the microbatch for which measured costs hold
  int global_batch = 0;  // samples of a step, which stay; 0: the file states them
};
void open_plan_keys(Node& root, const OpenedKeys& keys);

}  // namespace panpipe
