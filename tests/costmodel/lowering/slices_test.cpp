// Sequence splits: what a slice costs, carries and keeps.
#include <gtest/gtest.h>

#include <string>

#include "schedule/schedule.hpp"
#include "tests/costmodel/lowering/action_replay.hpp"
#include "tests/costmodel/lowering/tables.hpp"

namespace panpipe {
namespace {

using test::scenario_of;

// 1600 bytes are kept, 800 of them attention scores.
test::TableCosts attention_units(int count) {
  test::TableCosts costs = test::attention_units(count);
  for (UnitCost& unit : costs.table.units) unit.saved_selective = unit.attention_core = Bytes(800);
  return costs;
}

TaskGraph sliced(const test::TableCosts& costs, bool fused, const std::string& splits = "4") {
  Scenario scenario = scenario_of(2, 2, "seq-1f1b");
  scenario.schedule.options["sequence_splits"] = splits;
  scenario.framework.attention = fused ? AttentionKernel::Flash : AttentionKernel::FusedSoftmax;
  return test::lowered(scenario, costs);
}

const Task& task_of(const TaskGraph& graph, const std::string& action) { return graph.tasks[test::find_task(graph, action)]; }

// Fused and causal: slice j of 4 has (2j + 1) / 16 of 4 ms, and a quarter of the other 6.
TEST(Slices, LaterSlicesAttendToMore) {
  const TaskGraph graph = sliced(attention_units(2), true);
  EXPECT_NEAR(test::milliseconds_of(graph, "0F0.0"), 1.5 + 0.25, 1e-9);
  EXPECT_NEAR(test::milliseconds_of(graph, "0F0.1"), 1.5 + 0.75, 1e-9);
  EXPECT_NEAR(test::milliseconds_of(graph, "0F0.3"), 1.5 + 1.75, 1e-9);
  // The backward: (2j + 1) / 16 of 8 ms, a quarter of the other 12, and of the weight gradient's 4.
  EXPECT_NEAR(test::milliseconds_of(graph, "0B0.3"), 3 + 3.5 + 1, 1e-9);
  double sum = 0;
  for (int j = 0; j < 4; ++j) sum += test::milliseconds_of(graph, "1F0." + std::to_string(j));
  EXPECT_NEAR(sum, 10, 1e-9);
}

// Unfused the whole computes the full square, a slice (j + 1) / 16 of it; without a mask every slice a quarter.
TEST(Slices, UnfusedAndUnmaskedAttention) {
  test::TableCosts costs = attention_units(2);
  EXPECT_NEAR(test::milliseconds_of(sliced(costs, false), "0F0.0"), 1.5 + 0.25, 1e-9);
  EXPECT_NEAR(test::milliseconds_of(sliced(costs, false), "0F0.3"), 1.5 + 1, 1e-9);
  for (UnitCost& unit : costs.table.units) unit.causal_attention = false;
  for (const char* action : {"0F0.0", "0F0.3"}) EXPECT_NEAR(test::milliseconds_of(sliced(costs, true), action), 2.5, 1e-9);
}

TEST(Slices, KernelGapsComeOncePerSlice) {
  test::TableCosts costs = test::chain_of(2, 10e-3, 20e-3, 4e-3);
  for (UnitCost& unit : costs.table.units) unit.forward.breakdown.launch = millis(2);
  EXPECT_NEAR(test::milliseconds_of(sliced(costs, true), "0F0.2"), 8.0 / 4 + 2, 1e-9);
}

// A host of 5 ms a launch launches everything for every slice.
TEST(Slices, TheHostLaunchesEverySlice) {
  test::TableCosts costs = test::chain_of(2, 10e-3, 20e-3, 4e-3);
  costs.host_floor = 5e-3;
  for (UnitCost& unit : costs.table.units) unit.forward.host.launches = 1;
  EXPECT_NEAR(test::milliseconds_of(sliced(costs, true), "0F0.2"), 5, 1e-9);
}

// 1600 bytes in 4 slices: 400 each where attention is fused; else 200 and (j + 1) / 16 of the 800 of scores.
TEST(Slices, KeepTheirShareOfActivations) {
  const TaskGraph fused = sliced(attention_units(2), true), unfused = sliced(attention_units(2), false);
  EXPECT_EQ(task_of(fused, "0F0.0").take, Bytes(400));
  EXPECT_EQ(task_of(fused, "0F0.3").take, Bytes(400));
  EXPECT_EQ(task_of(unfused, "0F0.0").take, Bytes(200 + 50));
  EXPECT_EQ(task_of(unfused, "0F0.3").take, Bytes(200 + 200));
  for (int j = 0; j < 4; ++j)
    EXPECT_EQ(task_of(unfused, "0B1." + std::to_string(j)).give, task_of(unfused, "0F1." + std::to_string(j)).take);
}

TEST(Slices, BoundaryTensorsAreDivided) {
  const TaskGraph graph = sliced(attention_units(2), true);
  EXPECT_EQ(graph.transfers.size(), 2u * 2 * 4);  // both ways, two microbatches, four slices
  for (const TransferLink& link : graph.links) EXPECT_EQ(link.cost.bytes, Bytes(16));
}

// One slice is the whole.
TEST(Slices, OneSliceCostsWhatTheWholeDoes) {
  const TaskGraph graph = sliced(attention_units(2), true, "1");
  EXPECT_NEAR(test::milliseconds_of(graph, "0F0"), 10, 1e-9);
  EXPECT_NEAR(test::milliseconds_of(graph, "0B0"), 24, 1e-9);
  EXPECT_EQ(task_of(graph, "0F0").take, Bytes(1600));
}

}  // namespace
}  // namespace panpipe
