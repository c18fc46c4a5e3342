// A step of reinforcement learning as a sum: rollouts, whose time or rate is given, and a predicted training step. Closed forms
// (docs/post-training.md).
#pragma once

#include <optional>

#include "base/quantity.hpp"

namespace panpipe {

// `rollout:` of a scenario.
struct RolloutRequest {
  std::optional<Duration> time;  // of all rollouts of a step, on `gpus`; or
  double tokens = 0;             // generated for a step, at
  double tokens_per_second = 0;  // by each GPU
  int gpus = 0;                  // that generate and do not train; 0: those that train, in turn
  int staleness = 0;             // steps by which the weights that generate may be older: 0, generation waits for each update
  Duration update{0};            // weights to the generator, and memory handed over
};

// The division of a number of GPUs with the shortest period, if both halves took time in inverse proportion to their GPUs.
struct RlDivision {
  int rollout = 0, training = 0;
  double period_s = 0;
};

struct RlStep {
  double rollout_s = 0, training_s = 0, update_s = 0;
  double period_s = 0;                         // from one update to the next
  double training_gpus = 0, gpus = 0;          // those that train, and all
  double idle_rollout = 0, idle_training = 0;  // shares of the period, of each kind's own GPUs; in turn: 0
  std::optional<RlDivision> best;              // of as many GPUs; apart with staleness >= 1 alone
};

// Of a predicted training step on `gpus`.
//   in turn, or apart with staleness 0: rollout + training + update
//   apart with staleness >= 1:          max(rollout, training) + update
RlStep rl_step(const RolloutRequest& request, double training_s, double gpus);

// `unit`: the GPUs of one replica of the model, in whose multiples training grows. Of R and T seconds x GPUs, the real optimum
// is rollout = N R / (R + T), period (R + T) / N; of the multiples, the better neighbour. Empty: N holds no replica and a
// generator.
std::optional<RlDivision> best_division(const RolloutRequest& request, double training_s, double gpus, int total, int unit);

}  // namespace panpipe
