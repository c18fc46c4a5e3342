// Sharper bounds: the orders of passes themselves, replayed with each configuration's times, eight configurations of one order at
// a time. What follows a rank's last pass is added as in the closed form.
#pragma once

#include <vector>

#include "planner/auto/enumerate.hpp"

namespace panpipe::planner {

// Raises bounds and marks all as replayed; orders with groups, and those that the scenario states, keep theirs. Returns how many
// were replayed.
std::int64_t replay_orders(std::vector<Priced>& priced, Common& common, int threads);

}  // namespace panpipe::planner
