// The learning rate over a run.
#pragma once

#include <cstdint>
#include <optional>

#include "costmodel/scenario/training.hpp"

namespace panpipe::exec {

// The rate of update number `update` (from 0, not counting skipped steps). After a linear warm-up it is constant; or it falls
// from `decay_start` linearly or along half a cosine to the minimum, and stays there; or it is 1 / sqrt(updates made), continuous
// with the warm-up (Vaswani et al. 2017). `peak`: for parameters with their own learning rate, which follows the same curve with
// a proportional minimum.
double learning_rate(const OptimizerRequest& optimizer, const TrainingRequest& training, std::int64_t update,
                     std::optional<double> peak = {});

}  // namespace panpipe::exec
