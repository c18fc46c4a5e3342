// Axes: round ticks around everything, for any values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "present/page/axis.hpp"

namespace panpipe::present {
namespace {

std::vector<std::string> texts(const AxisScale& scale) {
  std::vector<std::string> result;
  for (const Tick& tick : scale.ticks()) result.push_back(tick.text);
  return result;
}

using Texts = std::vector<std::string>;

TEST(PageAxis, LinearEndsOnRoundTicks) {
  // 300 pixels hold at most 5 steps of 60: 0.7 / 5 = 0.14, next round step 0.2.
  const AxisScale scale({"t", AxisKind::Linear}, {0.31, 1.01}, 0, 300);
  EXPECT_EQ(texts(scale), (Texts{"0.2", "0.4", "0.6", "0.8", "1", "1.2"}));
  EXPECT_DOUBLE_EQ(scale.at(0.2), 0);
  EXPECT_DOUBLE_EQ(scale.at(1.2), 300);
  EXPECT_DOUBLE_EQ(scale.at(0.7), 150);
}

TEST(PageAxis, FromZeroHoldsZero) {
  EXPECT_EQ(texts({{"t", AxisKind::FromZero}, {90, 93}, 0, 300}), (Texts{"0", "20", "40", "60", "80", "100"}));
  EXPECT_EQ(texts({{"t", AxisKind::FromZero}, {-3, -1}, 0, 180}), (Texts{"-3", "-2", "-1", "0"}));
}

TEST(PageAxis, DirectionMayBeDown) {
  const AxisScale y({"t", AxisKind::Linear}, {0, 10}, 400, 0);
  EXPECT_DOUBLE_EQ(y.at(0), 400);
  EXPECT_DOUBLE_EQ(y.at(10), 0);
}

TEST(PageAxis, LogarithmicTicksByDecades) {
  EXPECT_EQ(texts({{"t", AxisKind::Log}, {1.2, 9}, 0, 300}), (Texts{"1", "1.5", "2", "3", "4", "5", "6", "8", "10"}));
  EXPECT_EQ(texts({{"t", AxisKind::Log}, {0.03, 2.5}, 0, 300}), (Texts{"0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5"}));
  EXPECT_EQ(texts({{"t", AxisKind::Log}, {1e-3, 1e2}, 0, 300}), (Texts{"0.001", "0.01", "0.1", "1", "10", "100"}));
  // Eighteen decades: every second one.
  EXPECT_LE(texts({{"t", AxisKind::Log}, {1e-9, 1e9}, 0, 300}).size(), 11U);
  const AxisScale scale({"t", AxisKind::Log}, {1, 100}, 0, 200);
  EXPECT_DOUBLE_EQ(scale.at(10), 100);
}

TEST(PageAxis, NarrowLogarithmicAxisIsTickedEvenly) {
  // 1.40 to 1.45 would be a sliver between 1 and 1.5.
  EXPECT_EQ(texts({{"t", AxisKind::Log}, {1.40, 1.45}, 0, 300}), (Texts{"1.4", "1.41", "1.42", "1.43", "1.44", "1.45"}));
}

// The values that were chosen, also the last; 2.1 lies seven pixels from 2 and has none.
TEST(PageAxis, ChosenValuesAreTicks) {
  const AxisScale scale({"", AxisKind::Log, {1, 2, 2.1, 4, 8}}, {1, 2, 2.1, 4, 8}, 0, 300);
  EXPECT_EQ(texts(scale), (Texts{"1", "2", "4", "8"}));
  EXPECT_NEAR(scale.at(2), 100, 1e-9);
}

TEST(PageAxis, WhatCannotBeShownMovesNothing) {
  const double nan = std::nan(""), infinite = std::numeric_limits<double>::infinity();
  const AxisScale scale({"t", AxisKind::Log}, {nan, infinite, 0, -3, 1.2, 9}, 0, 300);
  EXPECT_EQ(scale.low(), 1);
  EXPECT_EQ(scale.high(), 10);
  EXPECT_FALSE(scale.can_show(0));
  EXPECT_FALSE(scale.can_show(nan));
  EXPECT_TRUE(scale.can_show(0.5));
}

TEST(PageAxis, NoValuesAndOneValue) {
  for (const AxisKind kind : {AxisKind::Linear, AxisKind::FromZero, AxisKind::Log}) {
    const AxisScale none({"t", kind}, {}, 0, 300);
    EXPECT_LT(none.low(), none.high());
    EXPECT_GE(none.ticks().size(), 2U);
    for (const double only : {0.0, 5.0, -5.0, 1e-9, 1e12}) {
      const AxisScale one({"t", kind}, {only}, 0, 300);
      EXPECT_LT(one.low(), one.high()) << only;
      if (!one.can_show(only)) continue;
      EXPECT_THAT(one.at(only), ::testing::AllOf(::testing::Ge(0.0), ::testing::Le(300.0))) << only;
    }
  }
}

TEST(PageAxis, ValuesAtTheEndsOfDoublesLeaveAnAxis) {
  const double tiny = std::numeric_limits<double>::denorm_min(), huge = std::numeric_limits<double>::max();
  for (const AxisKind kind : {AxisKind::Linear, AxisKind::FromZero, AxisKind::Log})
    for (const std::vector<double>& values : std::vector<std::vector<double>>{
             {1e-308, 16}, {tiny, huge}, {0, tiny}, {-huge, huge}, {huge, 1, 2}, {1e-150, 1e150}, {-1e150, 1e150}}) {
      const AxisScale scale({"t", kind}, values, 0, 300);
      EXPECT_LT(scale.low(), scale.high()) << values[0];
      EXPECT_TRUE(std::isfinite(scale.low()) && std::isfinite(scale.high())) << values[0];
      EXPECT_THAT(scale.ticks().size(), ::testing::AllOf(::testing::Ge(2U), ::testing::Le(40U))) << values[0];
      for (const double value : values) {
        if (!scale.can_show(value)) continue;
        EXPECT_THAT(scale.at(value), ::testing::AllOf(::testing::Ge(-1e-6), ::testing::Le(300 + 1e-6))) << value;
      }
    }
}

TEST(PageAxis, AnAxisThatStartsAboveZeroIsCut) {
  EXPECT_TRUE(AxisScale({"t", AxisKind::Linear}, {131, 140}, 0, 300).is_cut());
  EXPECT_TRUE(AxisScale({"t", AxisKind::Log}, {1.40, 1.45}, 0, 300).is_cut());  // evenly ticked
  EXPECT_FALSE(AxisScale({"t", AxisKind::Log}, {1, 100}, 0, 300).is_cut());
  EXPECT_FALSE(AxisScale({"t", AxisKind::FromZero}, {131, 140}, 0, 300).is_cut());
  EXPECT_FALSE(AxisScale({"t", AxisKind::Linear}, {-1, 140}, 0, 300).is_cut());
}

TEST(PageAxis, RandomValuesLieInsideAndTicksAreFew) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> magnitude(-8, 8), mantissa(1, 10);
  for (int round = 0; round < 500; ++round) {
    std::vector<double> values;
    for (int i = 0; i < 5; ++i) values.push_back(mantissa(random) * std::pow(10, magnitude(random) * (round % 3) / 2));
    for (const AxisKind kind : {AxisKind::Linear, AxisKind::FromZero, AxisKind::Log}) {
      const AxisScale scale({"t", kind}, values, 0, 600);
      for (const double value : values) {
        EXPECT_GE(scale.at(value), -1e-6);
        EXPECT_LE(scale.at(value), 600 + 1e-6);
      }
      EXPECT_GE(scale.ticks().size(), 2U);
      EXPECT_LE(scale.ticks().size(), 14U);
    }
  }
}

}  // namespace
}  // namespace panpipe::present
