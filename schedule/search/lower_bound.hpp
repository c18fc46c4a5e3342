// A lower bound on the step that no order of the problem can beat.
#pragma once

#include "schedule/search/order_problem.hpp"

namespace panpipe::search {

// The two numbers are separate bounds: on every order's makespan, and on every order's longest span of a rank.
Score lower_bound(const OrderProblem& problem);

}  // namespace panpipe::search
