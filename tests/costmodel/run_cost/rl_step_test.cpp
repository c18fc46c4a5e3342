// Steps of reinforcement learning, by hand.
#include <gtest/gtest.h>

#include "costmodel/run_cost/rl_step.hpp"
#include "costmodel/run_cost/run_cost_text.hpp"

namespace panpipe {
namespace {

// 4 M tokens at 2500 a second on each GPU are 1600 s x GPUs.
RolloutRequest rollouts(int gpus, int staleness) {
  RolloutRequest request;
  request.tokens = 4e6, request.tokens_per_second = 2500;
  request.gpus = gpus, request.staleness = staleness;
  request.update = Duration(5);
  return request;
}

// On the 64 GPUs that train 25 s, then 40 s of training and 5 of update. On 32 of their own 50 s: one after the other 95,
// together 55, of which those that train wait 15 and those that generate 5.
TEST(RlStep, AddsOrOverlapsTheHalves) {
  EXPECT_DOUBLE_EQ(rl_step(rollouts(0, 0), 40, 64).period_s, 25 + 40 + 5);
  EXPECT_DOUBLE_EQ(rl_step(rollouts(0, 0), 40, 64).idle_training, 0);
  const RlStep apart = rl_step(rollouts(32, 0), 40, 64), together = rl_step(rollouts(32, 1), 40, 64);
  EXPECT_DOUBLE_EQ(apart.period_s, 50 + 40 + 5);
  EXPECT_DOUBLE_EQ(apart.idle_rollout, 45.0 / 95);
  EXPECT_DOUBLE_EQ(together.period_s, 55);
  EXPECT_DOUBLE_EQ(together.idle_training, 15.0 / 55);
  EXPECT_DOUBLE_EQ(together.idle_rollout, 5.0 / 55);
  EXPECT_DOUBLE_EQ(together.gpus, 96);
  RolloutRequest stated;
  stated.time = Duration(30);
  EXPECT_DOUBLE_EQ(rl_step(stated, 40, 64).period_s, 70);
}

// R = 1600, W = 40 x 64 = 2560 s x GPUs. Of 96: 96 x 2560 / 4160 = 59.1 train, in replicas of 8 56 or 64: 1600 / 40 = 40 against
// 2560 / 56 = 45.7, and 1600 / 32 = 50: 56 and 40. In single GPUs 59 and 37: 43.4 s, near 4160 / 96 = 43.3.
TEST(RlStep, DividesGpus) {
  const auto eights = best_division(rollouts(32, 1), 40, 64, 96, 8);
  ASSERT_TRUE(eights);
  EXPECT_EQ(eights->training, 56);
  EXPECT_EQ(eights->rollout, 40);
  EXPECT_DOUBLE_EQ(eights->period_s, 2560.0 / 56 + 5);
  const auto single = best_division(rollouts(32, 1), 40, 64, 96, 1);
  EXPECT_EQ(single->training, 59);
  EXPECT_DOUBLE_EQ(single->period_s, 2560.0 / 59 + 5);
  EXPECT_FALSE(best_division(rollouts(32, 1), 40, 64, 8, 8)) << "no GPU is left to generate";
}

// The best of all divisions in whole replicas, for any costs of both halves.
TEST(RlStep, NoDivisionIsBetter) {
  for (const double training : {0.5, 7.0, 90.0, 4000.0})
    for (const int unit : {1, 4, 16})
      for (const int total : {17, 64, 200}) {
        const RolloutRequest request = rollouts(8, 1);
        const auto best = best_division(request, training, 16, total, unit);
        ASSERT_TRUE(best);
        for (int trained = unit; trained < total; trained += unit) {
          const double period = std::max(1600.0 / (total - trained), training * 16 / trained) + 5;
          EXPECT_LE(best->period_s, period + 1e-9) << training << " " << unit << " " << total << " " << trained;
        }
      }
}

TEST(RlStep, ReadsAsALine) {
  RlStep step = rl_step(rollouts(32, 1), 40, 64);
  step.best = best_division(rollouts(32, 1), 40, 64, 96, 8);
  EXPECT_EQ(rl_lines(step),
            "rl   rollouts 50 s on 32 GPUs, training 40 s on 64: an update every 55 s\n"
            "     GPUs wait: those that generate 9.1 % of it, those that train 27.3 %\n"
            "     of 96 GPUs 40 generating and 56 training would need 50.7 s, if both halves scale\n");
}

}  // namespace
}  // namespace panpipe
