#include "planner/piper/knapsack.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

namespace panpipe::planner::piper {
namespace {

double all_combinations(const std::vector<Options>& layers, double memory) {
  double best = INFINITY;
  const std::function<void(std::size_t, double, double)> go = [&](std::size_t layer, double time, double used) {
    if (layer == layers.size()) {
      if (used <= memory) best = std::min(best, time);
      return;
    }
    for (const Option& o : layers[layer]) go(layer + 1, time + o.time, used + o.memory);
  };
  go(0, 0, 0);
  return best;
}

TEST(Knapsack, EqualsAllCombinations) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    std::vector<Options> layers;
    double least = 0, most = 0;
    for (unsigned i = 0; i < 1 + random() % 7; ++i) {
      Options options;
      for (unsigned o = 0; o < 1 + random() % 4; ++o)
        options.push_back({static_cast<double>(random() % 50), static_cast<double>(random() % 50)});
      layers.push_back(undominated(options));
      least += layers.back().back().memory;
      most += layers.back().front().memory;
    }
    const double memory = std::floor(least - 2 + (most - least + 4) * static_cast<double>(random() % 100) / 100);
    std::vector<const Options*> pointers;
    for (const Options& options : layers) pointers.push_back(&options);
    const Picked picked = least_time(pointers, memory);
    const double expected = all_combinations(layers, memory);
    ASSERT_EQ(picked.fits, !std::isinf(expected)) << round;
    if (!picked.fits) continue;
    EXPECT_EQ(picked.time, expected) << round;
    EXPECT_EQ(picked.choices.size(), layers.size());
  }
}

// Equal layers are where branching explodes: 60 of them, room for 29.5 plain ones.
TEST(Knapsack, ManyEqualLayersAreEasy) {
  const Options layer = {{1, 10}, {3, 4}};
  const std::vector<const Options*> layers(60, &layer);
  EXPECT_EQ(least_time(layers, 60 * 4 + 29.5 * 6).time, 29 * 1 + 31 * 3);
}

TEST(Knapsack, HullLeavesOutWhatAMixBeats) {
  // From (1, 10) to (5, 2) a byte costs 0.5; (4, 9) lies above that line.
  const std::vector<HullStep> steps = hull_steps({{1, 10}, {4, 9}, {5, 2}});
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].price(), 0.5);
}

}  // namespace
}  // namespace panpipe::planner::piper
