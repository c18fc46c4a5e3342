// In which order the steps of passes that run together take turns.
#pragma once

#include <vector>

namespace panpipe::exec {

// Given the number of steps of each pass, the pass of each step: always the one of which the smallest share is done, the first
// among equals. Two passes of as many steps alternate. All tensor-parallel ranks find the same order, which their sums need.
std::vector<int> woven(const std::vector<int>& steps);

}  // namespace panpipe::exec
