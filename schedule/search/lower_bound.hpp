// A lower bound on the step that no order of the problem can beat.
#pragma once

#include "schedule/search/order_problem.hpp"

namespace panpipe::search {

// The two numbers are separate bounds: on every order's makespan, and on every order's longest span of a rank.
Score lower_bound(const OrderProblem& problem);

// What an order may do with an activation between its forward and its backward.
struct Ways {
  bool recompute = false;
  bool offload = false;
  double out = 0, in = 0;  // of the copies of one activation
};
// A bound on the makespan of orders that use these ways to hold no more than the problem's memory.
double lower_bound(const OrderProblem& problem, const Ways& ways);

}  // namespace panpipe::search
