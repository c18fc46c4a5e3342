// The learning rate's course over a run.
#pragma once

#include <cstdint>

#include "costmodel/scenario/training.hpp"

namespace panpipe::exec {

// Of update number `update` (from 0; skipped steps do not count): linear warm-up, then constant, or linearly or along half a
// cosine down to the minimum, where it stays.
double learning_rate(const OptimizerRequest& optimizer, const TrainingRequest& training, std::int64_t update);

}  // namespace panpipe::exec
