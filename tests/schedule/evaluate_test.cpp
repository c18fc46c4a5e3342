// Times of small orders, worked out by hand.
#include <gtest/gtest.h>

#include "tests/schedule/drawn_rows.hpp"

namespace panpipe {
namespace {

using test::from_rows;

TEST(Evaluate, TwoRanksByHand) {
  // F=10, I=12, W=8 (B=20), comm=1, one microbatch on two ranks:
  // 0F0 0..10 | 1F0 starts when it arrives, 11..21, 1B0 21..41 | 0B0 42..62.
  const auto result = evaluate(from_rows({"0F0 0B0", "1F0 1B0"}), {10, 12, 8, std::nullopt, 1});
  EXPECT_EQ(result.makespan, 62);
  EXPECT_EQ(result.span, 62);  // rank 0; rank 1's is 30
  EXPECT_EQ(result.busy, (std::vector<double>{30, 30}));
  EXPECT_DOUBLE_EQ(result.bubble_step, 1 - 60.0 / 124);
  EXPECT_DOUBLE_EQ(result.bubble_span, 1 - 60.0 / 92);
  EXPECT_EQ(result.times[1][0], (std::pair<double, double>{11, 21}));
  EXPECT_EQ(result.times[0][1], (std::pair<double, double>{42, 62}));
}

TEST(Evaluate, TheFullBackwardMayCostLessThanItsParts) {
  EXPECT_EQ(evaluate(from_rows({"0F0 0B0"}), {10, 12, 8, 18.0, 0}).makespan, 28);
}

TEST(Evaluate, GroupsRunAsOneUnitUnlessSplit) {
  // Rank 1 runs (1F1;1B0): as one unit 10..40, its gradient leaves at 40; split, 1F1 is 20..30 and 1B0 30..50 as before.
  // F=10, B=20: 0F0 0..10, 0F1 10..20 | 1F0 10..20, group 20..50 | 0B0 50..70, 1B1 50..70, 0B1 70..90.
  const Schedule schedule = from_rows({"0F0 0F1 0B0 0B1", "1F0 (1F1;1B0)OVERLAP_F_B 1B1"});
  const PassCosts costs{10, 10, 10, std::nullopt, 0};
  EXPECT_EQ(evaluate(schedule, costs).makespan, 90);
  EXPECT_EQ(evaluate(schedule, costs, true).makespan, 90);
  EXPECT_EQ(evaluate(schedule, costs).times[1][1], (std::pair<double, double>{20, 50}));
  EXPECT_EQ(evaluate(schedule, costs, true).times[1][1], (std::pair<double, double>{20, 30}));
  // With the backward first, its gradient leaves at 40 when split, 10 before the forward of the group ends.
  const Schedule backward_first = from_rows({"0F0 0F1 0B0 0B1", "1F0 (1B0;1F1)OVERLAP_F_B 1B1"});
  EXPECT_EQ(evaluate(backward_first, costs).times[0][2].first, 50);
  EXPECT_EQ(evaluate(backward_first, costs, true).times[0][2].first, 40);
  // In a group the new activation comes before the old one goes; one by one they can share.
  EXPECT_EQ(evaluate(backward_first, costs).peak_activations[1], 2);
  EXPECT_EQ(evaluate(backward_first, costs, true).peak_activations[1], 1);
}

TEST(Evaluate, InputGradientsFreeNothing) {
  EXPECT_EQ(evaluate(from_rows({"0F0 0I0 0F1 0I1 0W0 0W1"}), {}).peak_activations, (std::vector<int>{2}));
  EXPECT_EQ(evaluate(from_rows({"0F0 0I0 0W0 0F1 0I1 0W1"}), {}).peak_activations, (std::vector<int>{1}));
}

TEST(Evaluate, WhatIsNoPassTakesNoTime) {
  const auto plain = evaluate(from_rows({"0F0 0B0", "1F0 1B0"}), {});
  const auto lowered = evaluate(from_rows({"0UNSHARD 0F0 0SEND_F0 0RECV_B0 0B0 0REDUCE_GRAD 0RESHARD OPT",
                                           "1UNSHARD 1RECV_F0 1F0 1B0 1SEND_B0 1REDUCE_GRAD 1RESHARD OPT"}),
                                {});
  EXPECT_EQ(lowered.makespan, plain.makespan);
  EXPECT_EQ(lowered.busy, plain.busy);
}

TEST(Evaluate, RecomputeRunsTheForwardAgain) {
  EXPECT_EQ(evaluate(from_rows({"0F0 0R0 0B0"}), {10, 12, 8, std::nullopt, 0}).makespan, 40);  // 10 + 10 + 20
}

TEST(Evaluate, FreeOfCost) {
  const auto result = evaluate(from_rows({"0F0 0B0"}), {0, 0, 0, std::nullopt, 0});
  EXPECT_EQ(result.makespan, 0);
  EXPECT_EQ(result.bubble_step, 0);
}

// Stage 0: F 1, I 2, W 3; stage 1: F 4, I 1, W 1. r0 F0 0-1; r1 F0 1-5, B0 5-7; r0 B0 7-12.
TEST(Evaluate, StagesWithCostsOfTheirOwn) {
  PassCosts costs;
  costs.stages = {{1, 2, 3}, {4, 1, 1}};
  const ScheduleEvaluation evaluation = evaluate(make_schedule("1f1b", 2, 1), costs);
  EXPECT_EQ(evaluation.makespan, 12);
  EXPECT_EQ(evaluation.busy, (std::vector<double>{6, 6}));
}

}  // namespace
}  // namespace panpipe
