// What the scenario's text leaves to a search, and the families that it may use: those in the scenario's list, and those that the
// target trainer supports.
#pragma once

#include <string_view>

#include "planner/planner.hpp"

namespace panpipe::planner {

// A value as the scenario's document writes it, at a key and, in its map, at one inside; nullptr: not written.
const Node* written(const Scenario& scenario, std::string_view key, std::string_view inside = "");

// For scenarios that leave the schedule open.
bool may_choose(const Scenario& scenario, std::string_view family);

// Throws InputError at the key of a stated value that the scenario's trainer cannot run.
void check_trainer(const Scenario& scenario);

}  // namespace panpipe::planner
