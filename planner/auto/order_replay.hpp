// Sharper bounds: replays the orders of passes with each configuration's times, eight configurations of one order at a time. The
// time after a rank's last pass is added as in the closed form.
#pragma once

#include <vector>

#include "planner/auto/enumerate.hpp"

namespace panpipe::planner {

// Raises bounds and marks all entries as replayed. Orders with groups, and those that the scenario states, keep their bounds.
// Returns the number of replayed entries.
std::int64_t replay_orders(std::vector<Priced>& priced, Common& common);

}  // namespace panpipe::planner
