// Recompute of sets of operators, other than the inside of attention: they cost less than whole blocks, and make more room where
// attention keeps little.
#pragma once

#include "planner/planner.hpp"

namespace panpipe::planner {

// --method auto; where recompute is open and its best plan recomputes, also with the sets of operators that the trainer has.
Answer search_recompute(const Experiment& experiment, const SearchOptions& options);

}  // namespace panpipe::planner
