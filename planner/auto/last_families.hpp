// Tries families without closed forms on the degrees of plans that are already good: orders searched within the remaining memory,
// and two chains in opposite directions.
#pragma once

#include <string>
#include <vector>

#include "planner/auto/exact.hpp"

namespace panpipe::planner {

struct LastTried {
  std::vector<Exact> found;           // plans that fit, in the order of forms()
  std::vector<std::string> families;  // families that exist for these sizes, whether they fit or not
};

// Empty on one rank.
LastTried try_last_families(Evaluator& evaluator, const Configuration& start);

}  // namespace panpipe::planner
