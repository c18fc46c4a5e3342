// The order in which the steps of passes that run together take turns.
#pragma once

#include <vector>

namespace panpipe::exec {

// Takes the number of steps of each pass and returns the pass of each step. The pass with the smallest completed share goes next;
// ties go to the first. Two passes with equally many steps alternate. All tensor-parallel ranks compute the same order, which
// their sums require.
std::vector<int> woven(const std::vector<int>& steps);

}  // namespace panpipe::exec
