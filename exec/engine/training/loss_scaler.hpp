// Loss scaling for half precision: the loss is multiplied so that small gradients do not vanish, and the factor adapts.
#pragma once

#include <cstdint>

#include "base/precision.hpp"
#include "costmodel/scenario/training.hpp"

namespace panpipe::exec {

class LossScaler {
 public:
  LossScaler(const TrainingRequest& training, Precision precision);

  bool dynamic() const { return dynamic_; }
  double scale() const { return scale_; }
  int good_steps() const { return good_steps_; }  // since the scale last changed

  // After a step, on every rank alike. Overflow halves the scale; growth_interval steps without one double it. Throws NoAnswer
  // when even a scale below 1 overflows: the run has diverged.
  void update(bool overflow, std::int64_t step);
  // Continues where a checkpoint stopped; nothing for a fixed scale.
  void restore(double scale, int good_steps);

 private:
  bool dynamic_;
  double scale_;
  int growth_interval_, good_steps_ = 0;
};

}  // namespace panpipe::exec
