#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "base/error.hpp"
#include "costmodel/plan/partition.hpp"
#include "costmodel/plan/plan.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

std::vector<Duration> picoseconds(const std::vector<int>& ticks) {
  std::vector<Duration> times;
  for (const int tick : ticks) times.push_back(to_duration(Ticks(tick)));
  return times;
}

// Largest stage, and sum of squares: what balanced_partition makes least, in this order.
std::pair<double, double> score(const std::vector<int>& units, const std::vector<int>& cuts) {
  double largest = 0, squares = 0;
  for (std::size_t k = 0; k <= cuts.size(); ++k) {
    const int begin = k == 0 ? 0 : cuts[k - 1], end = k < cuts.size() ? cuts[k] : static_cast<int>(units.size());
    double sum = 0;
    for (int u = begin; u < end; ++u) sum += units[u];
    largest = std::max(largest, sum);
    squares += sum * sum;
  }
  return {largest, squares};
}

std::pair<double, double> best_by_trying_all(const std::vector<int>& units, int stages) {
  std::pair<double, double> best{1e300, 1e300};
  std::vector<int> cuts;
  const std::function<void(int)> extend = [&](int from) {
    if (static_cast<int>(cuts.size()) == stages - 1) {
      best = std::min(best, score(units, cuts));
      return;
    }
    for (int cut = from; cut < static_cast<int>(units.size()); ++cut) {
      cuts.push_back(cut);
      extend(cut + 1);
      cuts.pop_back();
    }
  };
  extend(1);
  return best;
}

TEST(BalancedPartition, EqualsTheBestOfAllPartitions) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<int> units(1 + random() % 10);
    for (int& unit : units) unit = static_cast<int>(random() % (round % 2 == 0 ? 4 : 100));
    for (int stages = 1; stages <= static_cast<int>(units.size()); ++stages) {
      const std::vector<int> cuts = balanced_partition(picoseconds(units), stages);
      ASSERT_EQ(cuts.size(), static_cast<std::size_t>(stages - 1));
      ASSERT_TRUE(std::is_sorted(cuts.begin(), cuts.end(), std::less_equal<int>()));  // no stage is empty
      EXPECT_EQ(score(units, cuts), best_by_trying_all(units, stages)) << "round " << round << ", " << stages << " stages";
    }
  }
}

// 15 equal operators on 3 devices: 5 each. 36 layers on 8: four stages of 5 and four of 4.
TEST(BalancedPartition, EqualUnits) {
  EXPECT_EQ(balanced_partition(std::vector<Duration>(15, millis(1)), 3), (std::vector<int>{5, 10}));
  const std::vector<int> cuts = balanced_partition(std::vector<Duration>(36, millis(1)), 8);
  EXPECT_EQ(score(std::vector<int>(36, 1), cuts), (std::pair<double, double>{5, 4 * 25 + 4 * 16}));
}

std::vector<PartitionUnit> halves_of_blocks(int blocks) {
  std::vector<PartitionUnit> units{{"embedding", "", millis(0.1)}};
  for (int b = 0; b < blocks; ++b) {
    units.push_back({"h." + std::to_string(b) + ".attention", "h." + std::to_string(b), millis(1)});
    units.push_back({"h." + std::to_string(b) + ".mlp", "h." + std::to_string(b), millis(2)});
  }
  units.push_back({"loss", "", millis(0.5)});
  return units;
}

// Blocks of 3 ms: four on two stages are cut in the middle; between the halves of a block only where blocks are too few.
TEST(AutomaticCuts, LieBetweenBlocksWhereThereAreEnough) {
  EXPECT_EQ(automatic_cuts(halves_of_blocks(4), 2), (std::vector<int>{5}));
  const std::vector<PartitionUnit> two = halves_of_blocks(2);
  EXPECT_EQ(automatic_cuts(two, 3), (std::vector<int>{2, 4}));  // 1.1, 2 + 1, 2 + 0.5: attention, mlp | attention apart
}

std::string message_of(const std::vector<std::string>& starts, int stages) {
  return test::diagnostic_of([&] { stated_cuts(halves_of_blocks(2), starts, stages); }).message;
}

TEST(StatedCuts, ByNameAndByIndex) { EXPECT_EQ(stated_cuts(halves_of_blocks(2), {"h.0.mlp", "3"}, 3), (std::vector<int>{2, 3})); }

TEST(StatedCuts, AModulesPathIsItsFirstUnit) { EXPECT_EQ(stated_cuts(halves_of_blocks(2), {"h.1"}, 2), (std::vector<int>{3})); }

TEST(StatedCuts, FaultsAreExplained) {
  EXPECT_EQ(message_of({"h.0.mpl"}, 2), "partition: the workload has no unit 'h.0.mpl', did you mean 'h.0.mlp'?");
  EXPECT_EQ(message_of({"decoder"}, 2), "partition: the workload has no unit 'decoder'; its units are 'embedding' to 'loss'");
  EXPECT_EQ(message_of({"6"}, 2), "partition: there is no unit 6; the workload has units 0 to 5");
  EXPECT_EQ(message_of({"-1"}, 2), "partition: there is no unit -1; the workload has units 0 to 5");
  EXPECT_EQ(message_of({"3"}, 3), "partition: 3 stages need 2 cuts (units that start a stage after the first), not 1");
  EXPECT_EQ(message_of({"3", "h.0.mlp"}, 3), "partition: 'h.0.mlp' does not come after '3'; list cuts in the order of the units");
  EXPECT_EQ(message_of({"embedding"}, 2),
            "partition: 'embedding' is the first unit, which starts the first stage anyway; name the units that start the stages "
            "after it");
}

}  // namespace
}  // namespace panpipe
