// How many activations each rank may hold, for families whose orders are searched within a memory.
#pragma once

#include "planner/auto/exact.hpp"

namespace panpipe::planner {

// The plan of such a family with the shortest step that fits. First it may hold what 1F1B does; then what is left, or missing, on
// the devices is shared out among activations: by rank where the family takes a limit for each, with copies to the host if the
// scenario may have them, else without. The error of the memory model stays free where that is possible. Not usable
// where none fits.
Exact fit_activations(Evaluator& evaluator, const Configuration& configuration);

}  // namespace panpipe::planner
