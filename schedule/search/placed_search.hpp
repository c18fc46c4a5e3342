// The search for orders with more than two stages a rank: waves and loops, with split backward, within a memory limit. A list
// scheduler runs passes by the time at which one microbatch, laid out with waits, would want them; the waits are changed at
// random, and the best orders improved pass by pass (improve.hpp).
#pragma once

#include <cstdint>
#include <string>

#include "schedule/search/order_problem.hpp"
#include "schedule/search/search_order.hpp"

namespace panpipe::search {

// Any placement, one and two chunks included. Memory must be at least the number of chunks. `starts` as in find_order. The same
// seed gives the same order on every machine; the work is limited by the problem's `effort`, not by a clock.
Found find_placed_order(const OrderProblem& problem, const std::vector<Rows>& starts, std::uint64_t seed = 1);

// The same from hand-made orders of the placement that fit (hanayo, interleaved 1F1B, with split backward or not), as a schedule
// with its bound.
Schedule placed_schedule(const std::string& name, const OrderProblem& problem, std::uint64_t seed);

}  // namespace panpipe::search
