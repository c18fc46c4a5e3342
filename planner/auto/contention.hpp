// The choice among the best plans where links are shared. Internal to this folder.
#pragma once

#include "planner/auto/neighbours.hpp"
#include "planner/auto/open_bounds.hpp"

namespace panpipe::planner {

// Simulates the best plans, and those that may be faster under contention though their estimate is not. Contention depends mostly
// on which devices exchange how much, so the first plan of a layout shows how the others of it will fare: plans are taken in the
// order of their bounds times what contention added to the first of their layout, and layouts that are not known yet by their
// bounds. Contention only adds to an estimate: what is above the least simulated step cannot be faster.
void simulate_contenders(OpenBounds& bounds, Neighbours& neighbours, PlansFound& plans);

}  // namespace panpipe::planner
