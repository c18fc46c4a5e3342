// The learning rate's course over a run.
#pragma once

#include <cstdint>
#include <optional>

#include "costmodel/scenario/training.hpp"

namespace panpipe::exec {

// Of update number `update` (from 0; skipped steps do not count): linear warm-up; then constant; or from `decay_start` on
// linearly or along half a cosine down to the minimum, where it stays; or as 1 / sqrt(updates made), continuous with the warm-up
// (Vaswani et al. 2017). `peak`: of parameters with a learning rate of their own, which follows the same course, the minimum in
// proportion.
double learning_rate(const OptimizerRequest& optimizer, const TrainingRequest& training, std::int64_t update,
                     std::optional<double> peak = {});

}  // namespace panpipe::exec
