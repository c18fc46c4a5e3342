// One cell of the CSV text form <-> actions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/action.hpp"

namespace panpipe {

// Text that is no action: where in the cell, what is wrong, what to write instead (may be empty).
struct CellFault {
  std::size_t offset = 0;
  std::string message, help;
};

struct CellAction {
  Action action;
  bool full_backward = false;  // spelt BW, the letters of files written before late 2024
};

// Appends the actions of a cell without outer blanks. Returns false and fills `fault` when it is none.
bool parse_cell(std::string_view text, std::vector<CellAction>& actions, CellFault& fault);

}  // namespace panpipe
