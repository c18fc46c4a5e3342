// Improves a finished order pass by pass.
#pragma once

#include "schedule/search/order_problem.hpp"
#include "schedule/search/random.hpp"

namespace panpipe::search {

// Moves passes on the critical path within the memory limit, and keeps moves that do not lengthen the step (late acceptance:
// compared with the value some moves ago). `passes` limits the total number of passes timed. Stops when the bound is reached.
void improve(const OrderProblem& problem, const Score& bound, double passes, Random& random, Rows& rows, Score& score);

}  // namespace panpipe::search
