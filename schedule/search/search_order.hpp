// Searches a short order within a memory limit. It starts from building blocks and known orders and improves the best of them
// pass by pass. docs/models/searched-schedules.md gives the reasons.
#pragma once

#include <string>
#include <vector>

#include "schedule/search/order_problem.hpp"

namespace panpipe::search {

struct Found {
  Rows rows;
  Score score;
  Score bound;
};

// Deterministic, because the number of planned or timed passes limits the search, not a clock. The search begins with the orders
// in `starts` that fit the memory limit. The limit must be at least 1, in the V at least 2.
Found find_order(const OrderProblem& problem, const std::vector<Rows>& starts);

// Published orders of the placement, regardless of their memory.
std::vector<Rows> known_orders(const OrderProblem& problem);

// For the families: runs find_order from the known orders and returns a schedule with its bound and a note on both. `effort` is a
// factor on the usual search.
Schedule searched_schedule(const std::string& name, int ranks, int microbatches, int chunks, int memory, const PassCosts& costs,
                           double effort = 1);

}  // namespace panpipe::search
