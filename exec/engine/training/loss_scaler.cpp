#include "exec/engine/training/loss_scaler.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace panpipe::exec {
namespace {

// The steps of PyTorch's GradScaler.
constexpr double kGrowth = 2, kBackoff = 0.5;

}  // namespace

LossScaler::LossScaler(const TrainingRequest& training, Precision precision)
    : dynamic_(training.loss_scale == TrainingRequest::LossScale::Dynamic ||
               (training.loss_scale == TrainingRequest::LossScale::Default && compute_dtype(precision) == DType::Float16)),
      scale_(dynamic_ || training.loss_scale == TrainingRequest::LossScale::Fixed ? training.initial_scale : 1),
      growth_interval_(training.growth_interval) {}

void LossScaler::update(bool overflow, std::int64_t step) {
  if (!dynamic_) return;
  if (overflow) {
    scale_ *= kBackoff;
    good_steps_ = 0;
    if (scale_ < 1)
      throw NoAnswer(
          fmt::format("step {}: gradients overflow even at a loss scale of {:g}: the run has diverged", step + 1, scale_ * 2));
  } else if (++good_steps_ == growth_interval_) {
    scale_ *= kGrowth;
    good_steps_ = 0;
  }
}

void LossScaler::restore(double scale, int good_steps) {
  if (!dynamic_) return;
  scale_ = scale;
  good_steps_ = good_steps;
}

}  // namespace panpipe::exec
