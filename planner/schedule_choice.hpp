// The families that a search may use: those in the scenario's list, and those that the target trainer supports.
#pragma once

#include <string_view>

#include "planner/planner.hpp"

namespace panpipe::planner {

// For scenarios that leave the schedule open.
bool may_choose(const Scenario& scenario, const SearchLimits& limits, std::string_view family);

// Throws InputError at the key of a stated value that the trainer does not support.
void check_limits(const Scenario& scenario, const SearchLimits& limits);

}  // namespace panpipe::planner
