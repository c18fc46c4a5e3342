// Parses one cell of the CSV text form.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/action.hpp"

namespace panpipe {

// Text that is not an action: position in the cell, the fault, the remedy (may be empty).
struct CellFault {
  std::size_t offset = 0;
  std::string message, help;
};

struct CellAction {
  Action action;
  bool full_backward = false;  // spelt BW, as in files written before late 2024
};

// Appends the actions of a cell; `text` has no outer blanks. Returns false and fills `fault` if it is not an action.
bool parse_cell(std::string_view text, std::vector<CellAction>& actions, CellFault& fault);

}  // namespace panpipe
