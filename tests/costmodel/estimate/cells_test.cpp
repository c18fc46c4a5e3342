// Packed orders of every family, one plan and eight at a time, against the estimate of the lowered plan.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "costmodel/estimate/replay.hpp"
#include "schedule/find_family.hpp"
#include "schedule/rolling.hpp"
#include "schedule/travelling_weights.hpp"
#include "tests/costmodel/estimate/order_tables.hpp"
#include "tests/costmodel/lowering/tables.hpp"

namespace panpipe {
namespace {

using test::scenario_of;

// Uneven units with all-reduces, which braids hide: two units a stage.
test::TableCosts random_costs(int stages, std::mt19937& random) {
  std::uniform_real_distribution<double> some(1e-3, 9e-3);
  test::TableCosts costs = test::chain_of(2 * stages, 1, 1, 1);
  CollectiveCost cost;
  cost.kind = CollectiveKind::AllReduce;
  cost.members = 2;
  cost.time = Duration(some(random));
  costs.table.collectives = {cost};
  costs.slowdown = 0.19;
  costs.latency = Duration(some(random) / 4);
  for (UnitCost& unit : costs.table.units) {
    unit.forward = test::pass_of(some(random));
    unit.input_gradient = test::pass_of(some(random));
    unit.weight_gradient = test::pass_of(some(random));
    test::add_collective(unit.forward, cost.time);
    test::add_collective(unit.input_gradient, cost.time, true);
  }
  return costs;
}

struct Case {
  std::string family;
  ScheduleOptions options;
  int ranks = 0, microbatches = 0;
};

std::vector<Case> every_family() {
  std::vector<Case> cases;
  for (const ScheduleFamily& family : schedule_families())
    for (const auto& [p, m] : {std::pair{1, 4}, {2, 8}, {4, 12}}) {
      if (family.searched() && p > 2) continue;
      if (has_option(family.name, "ways") || has_option(family.name, "forward_slots")) continue;  // an R is in no group
      const Case plain{std::string(family.name), {}, p, m};
      cases.push_back(plain);
    }
  return cases;
}

double last_end(const TaskGraph& graph) {
  double last = 0;
  for (const Ticks end : estimate_times(graph).task_end) last = std::max(last, end.base());
  return last;
}

TEST(Cells, EveryFamilyEqualsTheEstimateToTheLastTick) {
  std::mt19937 random(7);
  int compared = 0;
  for (const Case& test : every_family()) {
    SCOPED_TRACE(test.family + " " + std::to_string(test.ranks) + " " + std::to_string(test.microbatches));
    Schedule schedule;
    try {
      schedule = make_schedule(test.family, test.ranks, test.microbatches, test.options);
    } catch (const InputError&) {
      continue;  // no such size
    }
    if (!check_schedule(schedule).empty()) continue;
    if (rolling_of(schedule) != Rolling::None) continue;  // its tasks are of several steps
    if (weights_travel(schedule)) continue;               // passes wait for exchanges of weights
    // The plan is made for a hand-made order of the same placement: a search for each set of costs takes its time.
    const bool searched = test.family.ends_with("auto") || test.family == "v-half" || test.family == "v-min";
    const std::string placed = schedule.stages == schedule.ranks ? "zb-h1" : "zb-v";
    Scenario scenario = scenario_of(test.ranks, test.microbatches, searched ? placed : test.family);
    scenario.schedule.options = test.options;
    if (schedule.splits > 1) continue;
    const PipelineOrder order = pack(schedule);
    if (!order.groups.empty()) continue;  // a bound, below
    Structure structure;
    ASSERT_TRUE(StructureBuilder().build(order, structure));
    const BatchProgram batch(structure), recycled(structure, BatchProgram::Values::Recycle);
    std::vector<Eight> costs(structure.cost_entries), delays(structure.delay_entries);
    Eight expected;
    for (int k = 0; k < kBatch; ++k) {
      const test::TableCosts model = random_costs(schedule.stages, random);
      Plan plan = make_plan(scenario, model);
      plan.schedule = schedule;  // searched orders depend on the costs
      const TaskGraph graph = lower(scenario, plan, model);
      const test::OrderTables tables = test::tables_of(order, graph);
      ASSERT_EQ(tables.costs.size(), costs.size());
      for (std::size_t i = 0; i < costs.size(); ++i) costs[i].value[k] = tables.costs[i];
      for (std::size_t i = 0; i < delays.size(); ++i) delays[i].value[k] = tables.delays[i];
      expected.value[k] = last_end(graph);
      std::vector<double> ends(structure.tasks + 1);
      EXPECT_EQ(replay(structure, tables.costs.data(), tables.delays.data(), ends.data()), expected.value[k]);
    }
    std::vector<Eight> values(std::max(batch.values(), recycled.values()));
    const Eight all = batch.replay(costs.data(), delays.data(), values.data());
    const Eight again = recycled.replay(costs.data(), delays.data(), values.data());
    for (int k = 0; k < kBatch; ++k) {
      EXPECT_EQ(all.value[k], expected.value[k]);
      EXPECT_EQ(again.value[k], expected.value[k]);
    }
    ++compared;
  }
  EXPECT_GT(compared, 40);
}

TEST(Cells, EntriesAreOnePerPassAndKindOfGroup) {
  const PipelineOrder braided = pack(make_schedule("stp", 2, 9));
  // Rank 0: (3F;3I), (0F;3W), (3F;3B), (0F;0B). Rank 1: (1F;1F), (2F;2B), (1F;1B), (2F;2I).
  EXPECT_EQ(braided.groups.size(), 8U);
  EXPECT_TRUE(pack(make_schedule("1f1b", 2, 4)).groups.empty());
  EXPECT_THROW(pack(make_schedule("seq-1f1b", 2, 4)), InputError);
}

// F 1, B 2 on both ranks, no delays. Rank 0: 0F0 ends at 1; of its group 0F1 ends at 2 and, with a gradient that is made at 4,
// 0B0 at 6, which is more than the 2.5 that the group takes together. Rank 1: 1F0 1..2, 1B0 2..4, 1F1 4..5 although the group
// goes on, 1B1 5..7. Then 0B1 7..9. A group of 7 ends at 8, and 0B1 at 10.
TEST(Cells, MembersOfAGroupStartAndDeliverEachByItself) {
  const PipelineOrder order = pack(read_schedule_csv("0F0,(0F1;0B0)OVERLAP_F_B,0B1\r\n1F0,1B0,1F1,1B1\r\n", "braid"));
  Structure structure;
  ASSERT_TRUE(StructureBuilder().build(order, structure));
  for (const auto& [together, step] : {std::pair{2.5, 9.0}, {7.0, 10.0}}) {
    std::vector<double> costs(structure.cost_entries), delays(structure.delay_entries), ends(structure.tasks + 1);
    for (const int stage : {0, 1}) {
      costs[cost_entry(Pass::F, stage)] = costs[member_entry(2, 1, Pass::F, stage)] = 1;
      costs[cost_entry(Pass::B, stage)] = costs[member_entry(2, 1, Pass::B, stage)] = 2;
    }
    costs[group_entry(2, 0)] = together;
    EXPECT_EQ(replay(structure, costs.data(), delays.data(), ends.data()), step);
  }
}

// Rank 0 braids 0F1 with the gradient of 0, rank 1 wants 1F1 before it makes that.
TEST(Cells, AnOrderThatCannotFinishHasNoStructure) {
  const PipelineOrder order = pack(read_schedule_csv("0F0,(0F1;0B0)OVERLAP_F_B,0B1\r\n1F0,1F1,1B0,1B1\r\n", "circle"));
  Structure structure;
  EXPECT_FALSE(StructureBuilder().build(order, structure));
}

}  // namespace
}  // namespace panpipe
