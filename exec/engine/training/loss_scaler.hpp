// Loss scaling for half precision: multiplies the loss by an adaptive factor, so that small gradients do not vanish.
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

  // Call it after a step, identically on every rank. Overflow halves the scale; growth_interval steps without overflow double it.
  // Throws NoAnswer if even a scale below 1 overflows: the run has diverged.
  void update(bool overflow, std::int64_t step);
  // Continues from a checkpoint; does nothing for a fixed scale.
  void restore(double scale, int good_steps);

 private:
  bool dynamic_;
  double scale_;
  int growth_interval_, good_steps_ = 0;
};

}  // namespace panpipe::exec
