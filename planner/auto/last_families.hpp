// Families of which closed forms know nothing, on the degrees of plans that are good already: orders searched within the memory
// that is left, and two chains against each other.
#pragma once

#include <string>
#include <vector>

#include "planner/auto/exact.hpp"

namespace panpipe::planner {

// The plans found that fit, in the order of forms(); empty on one rank.
std::vector<Exact> try_last_families(Evaluator& evaluator, const Ground& ground, const Exact& start,
                                     const SearchOptions& options);

std::string last_family_names();  // "zb-auto, ..."

}  // namespace panpipe::planner
