// Families of which closed forms know nothing, on the degrees of plans that are good already: orders searched within the memory
// that is left, and two chains against each other.
#pragma once

#include <string>
#include <vector>

#include "planner/auto/exact.hpp"

namespace panpipe::planner {

struct LastTried {
  std::vector<Exact> found;           // plans that fit, in the order of forms()
  std::vector<std::string> families;  // names of those that exist for these sizes, whether they fit or not
};

// Nothing on one rank.
LastTried try_last_families(Evaluator& evaluator, const Ground& ground, const Exact& start, const SearchOptions& options);

}  // namespace panpipe::planner
