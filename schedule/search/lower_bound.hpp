// How short a step can be at best: what no order of the problem can beat.
#pragma once

#include "schedule/search/order_problem.hpp"

namespace panpipe::search {

// Both numbers are bounds of their own: of every order's makespan, and of every order's longest span of a rank.
Score lower_bound(const OrderProblem& problem);

}  // namespace panpipe::search
