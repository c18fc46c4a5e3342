// Improving a finished order pass by pass.
#pragma once

#include "schedule/search/order_problem.hpp"
#include "schedule/search/random.hpp"

namespace panpipe::search {

// Moves passes on the critical path and keeps what does not lengthen the step (late acceptance: compared with the value of some
// moves ago), within the memory limit. `passes` limits the work: passes timed in all. Stops when the bound is reached.
void improve(const OrderProblem& problem, const Score& bound, double passes, Random& random, Rows& rows, Score& score);

}  // namespace panpipe::search
