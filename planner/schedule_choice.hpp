// Which families a search may take: those of the scenario's list, and of the trainer that plans are made for.
#pragma once

#include <string_view>

#include "planner/planner.hpp"

namespace panpipe::planner {

// Where the scenario leaves the schedule open.
bool may_choose(const Scenario& scenario, const SearchLimits& limits, std::string_view family);

// InputError at the key of what is stated and the trainer does not have.
void check_limits(const Scenario& scenario, const SearchLimits& limits);

}  // namespace panpipe::planner
