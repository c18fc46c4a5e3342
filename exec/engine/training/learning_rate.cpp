#include "exec/engine/training/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace panpipe::exec {

double learning_rate(const OptimizerRequest& optimizer, const TrainingRequest& training, std::int64_t update,
                     std::optional<double> own_peak) {
  using Decay = TrainingRequest::Decay;
  const double peak = own_peak.value_or(optimizer.learning_rate);
  double least = std::min(training.minimum_learning_rate, optimizer.learning_rate);
  if (peak != optimizer.learning_rate) least = optimizer.learning_rate > 0 ? least * (peak / optimizer.learning_rate) : 0;
  if (update < training.warmup_steps) return peak * static_cast<double>(update + 1) / training.warmup_steps;
  if (training.decay == Decay::Constant) return peak;
  if (training.decay == Decay::InverseSqrt)
    return std::max(least, peak * std::sqrt(std::max(1, training.warmup_steps) / static_cast<double>(update + 1)));
  const int start = std::max(training.warmup_steps, training.decay_start);
  if (update < start) return peak;
  const double done = std::min(1.0, static_cast<double>(update - start) / static_cast<double>(training.decay_steps - start));
  if (training.decay == Decay::Linear) return peak + (least - peak) * done;
  return least + (peak - least) * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

}  // namespace panpipe::exec
