// What the engines say of one cell of a sweep.
#pragma once

#include <string>
#include <vector>

#include "study/sweep/sweep.hpp"

namespace panpipe::cli {

// Reads the scenario with these overrides. InputError where it is wrong, or has no times, which no engine and no planner can do
// without.
void load_cell(const std::string& scenario, const std::vector<std::string>& overrides);

// Reads the scenario with these overrides, plans it where the grid names a method, and predicts its step with the grid's engine.
planner::CellAnswer answer_of_cell(const planner::SweepGrid& grid, const std::vector<std::string>& overrides);

}  // namespace panpipe::cli
