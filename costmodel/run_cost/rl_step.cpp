#include "costmodel/run_cost/rl_step.hpp"

#include <algorithm>
#include <cmath>

namespace panpipe {
namespace {

double rollout_seconds(const RolloutRequest& request, double training_gpus) {
  if (request.time) return request.time->base();
  return request.tokens / request.tokens_per_second / (request.gpus > 0 ? request.gpus : training_gpus);
}

}  // namespace

RlStep rl_step(const RolloutRequest& request, double training_s, double gpus) {
  RlStep step;
  step.rollout_s = rollout_seconds(request, gpus);
  step.training_s = training_s;
  step.update_s = request.update.base();
  step.training_gpus = gpus;
  step.gpus = gpus + request.gpus;
  const bool apart = request.gpus > 0, together = apart && request.staleness > 0;
  step.period_s = (together ? std::max(step.rollout_s, training_s) : step.rollout_s + training_s) + step.update_s;
  if (apart) {
    step.idle_rollout = 1 - step.rollout_s / step.period_s;
    step.idle_training = 1 - training_s / step.period_s;
  }
  return step;
}

std::optional<RlDivision> best_division(const RolloutRequest& request, double training_s, double gpus, int total, int unit) {
  const double generated = rollout_seconds(request, gpus) * (request.gpus > 0 ? request.gpus : gpus), trained = training_s * gpus;
  const int replicas = (total - 1) / unit;
  if (replicas < 1) return std::nullopt;
  const double best = total * trained / (generated + trained) / unit;
  std::optional<RlDivision> found;
  for (const double at : {std::floor(best), std::ceil(best)}) {
    const int training = static_cast<int>(std::clamp(at, 1.0, static_cast<double>(replicas))) * unit, rollout = total - training;
    const double period = std::max(generated / rollout, trained / training) + request.update.base();
    if (!found || period < found->period_s) found = RlDivision{rollout, training, period};
  }
  return found;
}

}  // namespace panpipe
