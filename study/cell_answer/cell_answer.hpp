// The engines' answer to one cell of a sweep.
#pragma once

#include <string>
#include <vector>

#include "costmodel/scenario/scenario.hpp"
#include "study/sweep/sweep.hpp"

namespace panpipe::study {

// Reads the scenario with these overrides. Throws InputError if it is wrong, or has no times, which every engine and planner
// needs.
void load_cell(const std::string& scenario, const std::vector<std::string>& overrides);

// Reads the scenario with these overrides, plans it if the grid names a method, and predicts its step with the grid's engine.
CellAnswer answer_of_cell(const SweepGrid& grid, const std::vector<std::string>& overrides);

// The same for scenarios that were already read, which need not be in a file.
void check_scenario_of_cell(Scenario scenario);
CellAnswer answer_of_scenario(const SweepGrid& grid, Scenario scenario);

}  // namespace panpipe::study
