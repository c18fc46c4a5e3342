// A predicted step's memory as a snapshot of PyTorch's.
#pragma once

#include <optional>
#include <string>

#include "app/predict.hpp"
#include "costmodel/lowering/allocation_history.hpp"

namespace panpipe::app {

// The pipeline rank whose device is fullest.
int fullest_rank(const Metrics& metrics);

// The allocations of a pipeline rank; without one, of the fullest. Throws InputError for a rank that does not exist, and where
// the allocator is not replayed.
AllocationHistory allocation_history(const PredictedStep& step, std::optional<int> rank);

}  // namespace panpipe::app
