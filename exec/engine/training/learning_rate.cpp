#include "exec/engine/training/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace panpipe::exec {

double learning_rate(const OptimizerRequest& optimizer, const TrainingRequest& training, std::int64_t update) {
  const double peak = optimizer.learning_rate, least = std::min(training.minimum_learning_rate, peak);
  if (update < training.warmup_steps) return peak * static_cast<double>(update + 1) / training.warmup_steps;
  if (training.decay == TrainingRequest::Decay::Constant) return peak;
  const double done = std::min(1.0, static_cast<double>(update - training.warmup_steps) /
                                        static_cast<double>(training.decay_steps - training.warmup_steps));
  if (training.decay == TrainingRequest::Decay::Linear) return peak + (least - peak) * done;
  return least + (peak - least) * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

}  // namespace panpipe::exec
