#include "costmodel/run_cost/goodput.hpp"

#include <algorithm>
#include <cmath>

namespace panpipe {

Duration mtbf_of_all(Duration mtbf, double parts) { return mtbf / parts; }

Duration best_checkpoint_interval(Duration checkpoint, Duration mtbf) {
  const double ratio = checkpoint / (2 * mtbf);
  if (ratio >= 1) return mtbf;
  const double root = std::sqrt(ratio);
  return std::sqrt(2 * checkpoint.base() * mtbf.base()) * (1 + root / 3 + ratio / 9) * Duration(1) - checkpoint;
}

Duration time_with_checkpoints(Duration training, const CheckpointCosts& costs) {
  return training + costs.checkpoint * (training / std::min(training, costs.interval));
}

Duration time_with_failures(Duration training, const CheckpointCosts& costs, Duration restart, Duration mtbf) {
  const Duration interval = std::min(training, costs.interval);
  const double segments = training / interval;
  return mtbf * (std::exp(restart / mtbf) * std::expm1((interval + costs.checkpoint) / mtbf) * segments);
}

}  // namespace panpipe
