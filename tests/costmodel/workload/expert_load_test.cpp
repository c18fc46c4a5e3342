// How tokens fall on experts, and experts on ranks.
#include "costmodel/workload/expert_load.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fault.hpp"

namespace panpipe {
namespace {

using testing::ElementsAre;

// Eight experts, mean 100.
ExpertLoad load_of(std::vector<double> tokens) {
  ExpertLoad load;
  load.tokens = {std::move(tokens)};
  return load;
}
const std::vector<double> kTokens = {250, 150, 150, 50, 80, 70, 30, 20};

// Two experts a rank: 400, 200, 150 and 50 rows, mean 200. Four: 600 and 200, mean 400.
TEST(ExpertLoad, TheBusiestRankHoldsItsExpertsTokens) {
  const ExpertLoad load = load_of(kTokens);
  EXPECT_DOUBLE_EQ(load.received(4, 8), 2);
  EXPECT_DOUBLE_EQ(load.received(2, 8), 1.5);
  EXPECT_DOUBLE_EQ(load.received(8, 8), 2.5);
  EXPECT_DOUBLE_EQ(load.received(1, 8), 1);
  EXPECT_DOUBLE_EQ(load.received_by_node(2, 4, 8), 1.5);  // nodes of two ranks each
  EXPECT_DOUBLE_EQ(load.sent(8), 1);
}

// A layer waits for its own busiest rank: lines of 2 and of 1, in any unit.
TEST(ExpertLoad, LinesCountAlike) {
  ExpertLoad load = load_of(kTokens);
  load.tokens.emplace_back(8, 3.0);
  EXPECT_DOUBLE_EQ(load.received(4, 8), 1.5);
}

// By load 250 goes to the first of four ranks, 150 and 150 to the next two, 80 to the last, 70 to it (150 of 2), then 50, 30 and
// 20: the second has the least, 200; the third 180; the first 270. Nothing can be below 250 and the smallest.
TEST(ExpertLoad, PlacementByLoadIsGreedy) {
  ExpertLoad load = load_of(kTokens);
  load.placement = ExpertPlacement::Balanced;
  EXPECT_THAT(experts_of_ranks(load, kTokens, 4),
              ElementsAre(ElementsAre(0, 7), ElementsAre(1, 3), ElementsAre(2, 6), ElementsAre(4, 5)));
  EXPECT_DOUBLE_EQ(load.received(4, 8), 270.0 / 200);
  load.placement = ExpertPlacement::Given;
  load.order = {0, 6, 1, 7, 2, 3, 4, 5};
  EXPECT_DOUBLE_EQ(load.received(4, 8), 280.0 / 200);
}

// A capacity of 1.2 keeps 120 of 250, 150 and 150: 120 + 120 + 120 + 50 + 80 + 70 + 30 + 20 = 610 of 800 rows are sent, and the
// first of four ranks gets 240 for 200. Padded, each expert has 120.
TEST(ExpertLoad, RowsAboveTheCapacityAreDropped) {
  ExpertLoad load = load_of(kTokens);
  load.capacity = 1.2;
  EXPECT_DOUBLE_EQ(load.received(4, 8), 1.2);
  EXPECT_DOUBLE_EQ(load.sent(8), 1.2);
  load.padded = false;
  EXPECT_DOUBLE_EQ(load.sent(8), 610.0 / 800);
  EXPECT_DOUBLE_EQ(load.received(4, 8), 1.2);
  load.capacity = 2;
  EXPECT_DOUBLE_EQ(load.received(4, 8), 350.0 / 200);
  ExpertLoad even;
  even.capacity = 2;
  even.padded = false;
  EXPECT_DOUBLE_EQ(even.received(4, 8), 1);
  even.imbalance = 3;
  EXPECT_DOUBLE_EQ(even.received(4, 8), 2);
}

// 1 / i^s: all alike at 0, and for s = 1 over 4 experts 12 / 25 of the tokens with the first.
TEST(ExpertLoad, ZipfsLaw) {
  ExpertLoad load;
  load.zipf = 0;
  EXPECT_DOUBLE_EQ(load.received(4, 64), 1);
  load.zipf = 1;
  EXPECT_NEAR(load.received(4, 4), 4 * 12.0 / 25, 1e-12);
  ExpertLoad placed = load;
  placed.placement = ExpertPlacement::Balanced;
  EXPECT_LT(placed.received(8, 64), load.received(8, 64));
  EXPECT_GE(placed.received(8, 64), 1);
}

TEST(ExpertLoad, CountsOfOtherModelsAreRefused) {
  const auto fault = [](const ExpertLoad& load, int experts) {
    return test::diagnostic_of([&] { load.check(experts); }).message;
  };
  EXPECT_EQ(fault(load_of(kTokens), 64), "'experts.tokens' counts those of 8 experts, and the model has 64");
  ExpertLoad placed = load_of(kTokens);
  placed.placement = ExpertPlacement::Given;
  placed.order = {1, 0};
  EXPECT_EQ(fault(placed, 8), "'experts.placement' lists 2 experts, and the model has 8");
}

}  // namespace
}  // namespace panpipe
