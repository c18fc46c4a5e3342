// The search for a short order within a memory limit: building blocks and known orders as starts, the best of them improved pass
// by pass. docs/models/searched-schedules.md says why.
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

// Deterministic: a number of passes that are planned or timed limits the search, not a clock. `starts` are orders to begin with;
// those beyond the memory limit are left out. Memory must be at least 1, in the V 2.
Found find_order(const OrderProblem& problem, const std::vector<Rows>& starts);

// Hand-made and published orders of the placement, whatever they hold.
std::vector<Rows> known_orders(const OrderProblem& problem);

// For the families: find_order from the known orders, as a schedule with its bound and a note on both. `effort`: share of the
// usual search.
Schedule searched_schedule(const std::string& name, int ranks, int microbatches, int chunks, int memory, const PassCosts& costs,
                           double effort = 1);

}  // namespace panpipe::search
