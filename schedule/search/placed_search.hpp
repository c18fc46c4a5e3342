// Searches orders with more than two stages per rank: waves and loops, with split backward, within a memory limit. One microbatch
// is laid out with waits, and a list scheduler ranks passes by their times in that layout. The search changes the waits at random
// and improves the best orders pass by pass (improve.hpp).
#pragma once

#include <cstdint>
#include <string>

#include "schedule/search/order_problem.hpp"
#include "schedule/search/search_order.hpp"

namespace panpipe::search {

// Accepts any placement, including one and two chunks. The memory limit must be at least the number of chunks. `starts` as in
// find_order. The same seed gives the same order on every machine, because the problem's `effort` limits the work, not a clock.
Found find_placed_order(const OrderProblem& problem, const std::vector<Rows>& starts, std::uint64_t seed = 1);

// The same, started from the published orders of this placement that fit (hanayo, interleaved 1F1B, with and without split
// backward). Returns a schedule with its bound.
Schedule placed_schedule(const std::string& name, const OrderProblem& problem, std::uint64_t seed);

}  // namespace panpipe::search
