// A stage in the table against the same stage lowered, for every cut.
#include "costmodel/lowering/stage_table.hpp"

#include <gtest/gtest.h>

#include <random>

#include "tests/costmodel/lowering/action_replay.hpp"
#include "tests/costmodel/lowering/tables.hpp"

namespace panpipe {
namespace {

using test::pass_of;

// Six units in three blocks: times, launches and recompute drawn; the last one's passes stand behind a meeting with the host, the
// fourth has a full backward of its own.
test::TableCosts drawn_units() {
  test::TableCosts costs = test::chain_of(6, 0, 0, 0);
  costs.host_floor = 20e-3;  // of a launch: about a third of the stages are bound by it
  costs.accumulation_per_element = 1e-5;
  std::mt19937 random(11);
  const auto draw = [&] {
    PassCost pass = pass_of(1e-3 * (1 + static_cast<double>(random() % 100)));
    pass.host.launches = static_cast<int>(random() % 5);
    return pass;
  };
  for (std::size_t u = 0; u < costs.table.units.size(); ++u) {
    UnitCost& unit = costs.table.units[u];
    unit.block = "b" + std::to_string(u / 2);
    unit.parameters = {{static_cast<int>(u), static_cast<std::int64_t>(100 * u), Bytes(0)}};
    for (PassCost UnitCost::*pass : {&UnitCost::forward, &UnitCost::input_gradient, &UnitCost::weight_gradient,
                                     &UnitCost::recompute_full, &UnitCost::recompute_selective})
      unit.*pass = draw();
  }
  costs.table.units[3].backward = draw();
  for (PassCost UnitCost::*pass : {&UnitCost::forward, &UnitCost::input_gradient, &UnitCost::weight_gradient})
    (costs.table.units[5].*pass).synchronises = true;
  return costs;
}

// The durations of all passes of the two stages, cut before `cut`, are the table's: a pass has two steps at most, each rounded.
int compare(const test::TableCosts& costs, const std::string& schedule, Recompute mode, int cut) {
  Scenario scenario = test::scenario_of(2, 4, schedule);
  scenario.partition = {std::to_string(cut)};
  scenario.recompute = mode;
  const StageTable table(scenario, costs, 0, {mode});
  const TaskGraph graph = test::lowered(scenario, costs);
  int compared = 0;
  for (const Task& task : graph.tasks) {
    if (task.kind != TaskKind::Pass) continue;
    const int first = task.action.stage == 0 ? 0 : cut, end = task.action.stage == 0 ? cut : table.units();
    const double expected = graph.programs[task.program].duration.base();
    EXPECT_NEAR(table.time(task.action.kind, mode, first, end) * 1e12, expected, 1.5)
        << schedule << ", cut " << cut << ", stage " << task.action.stage << ", pass " << static_cast<int>(task.action.kind);
    ++compared;
  }
  return compared;
}

TEST(StageTable, HoldsWhatTheLoweringComesTo) {
  const test::TableCosts costs = drawn_units();
  for (const Recompute mode : {Recompute::None, Recompute::Selective, Recompute::Full})
    for (int cut = 1; cut < 6; ++cut) {
      EXPECT_EQ(compare(costs, "1f1b", mode, cut), 2 * 4 * 2);   // stages, microbatches, F and B
      EXPECT_EQ(compare(costs, "zb-h1", mode, cut), 2 * 4 * 3);  // F, I and W
    }
}

// F of 10 ms and an all-reduce of 4; I of 8 whose all-reduce a full backward hides behind W of 6, which then loses 0.25 x 4.
TEST(StageTable, OfOneUnitIsExactWithCollectives) {
  test::TableCosts costs = test::chain_of(2, 10e-3, 8e-3, 6e-3);
  costs.slowdown = 0.25;
  CollectiveCost sum;
  sum.time = millis(4);
  costs.table.collectives = {sum};
  for (UnitCost& unit : costs.table.units) {
    test::add_collective(unit.forward, millis(4));
    test::add_collective(unit.input_gradient, millis(4), true);
  }
  compare(costs, "1f1b", Recompute::None, 1);
  compare(costs, "zb-h1", Recompute::None, 1);
  const StageTable table(test::scenario_of(2, 4, "1f1b"), costs, 0, {Recompute::None});
  EXPECT_TRUE(table.has_collectives());
  EXPECT_NEAR(table.time(ActionKind::F, Recompute::None, 0, 1), 14e-3, 1e-12);
  EXPECT_NEAR(table.time(ActionKind::B, Recompute::None, 0, 1), 15e-3, 1e-12);
  EXPECT_NEAR(table.time(ActionKind::I, Recompute::None, 0, 1), 12e-3, 1e-12);  // nothing to hide behind
  EXPECT_NEAR(table.sums(ActionKind::F, Recompute::None).compute.back(), 20e-3, 1e-12);
  EXPECT_NEAR(table.sums(ActionKind::B, Recompute::None).compute.back(), 28e-3, 1e-12);  // what the collective slows is not in it
}

// 100 elements a unit; parameter 0 in units 0, 2 and 3 too: a stage that holds several of these holds it once.
TEST(StageTable, CountsATiedParameterOnce) {
  test::TableCosts costs = test::chain_of(4, 1, 1, 1);
  costs.table.units[2].parameters.push_back({0, 100, Bytes(0)});
  costs.table.units[3].parameters.push_back({0, 100, Bytes(0)});
  const StageTable table(test::scenario_of(1, 1, "gpipe"), costs, 0, {Recompute::None});
  EXPECT_EQ(table.elements().back(), 600);
  EXPECT_EQ(table.held(0, 4).elements(), 400);
  EXPECT_EQ(table.held(1, 4).elements(), 400);  // 1, 2, 3 and 0
  EXPECT_EQ(table.held(1, 3).elements(), 300);
  EXPECT_EQ(table.held(3, 3).elements(), 0);
  EXPECT_EQ(table.tensors().back(), 6);
  EXPECT_EQ(table.held(0, 4).tensors(), 4);
  EXPECT_EQ(table.held(1, 3).tensors(), 3);
}

}  // namespace
}  // namespace panpipe
