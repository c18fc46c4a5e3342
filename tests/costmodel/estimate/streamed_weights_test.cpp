// Steps of models whose weights lie in the host's memory: times by hand, memory, and bytes.
#include <gtest/gtest.h>

#include <map>

#include "base/error.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "costmodel/lowering/task_graph.hpp"
#include "schedule/walk.hpp"
#include "tests/costmodel/lowering/tables.hpp"

namespace panpipe {
namespace {

using test::chain_of;
using test::scenario_of;

// Units of F = I = W = 1 s with 100 bytes of weights each, and as many of gradients.
test::TableCosts units_with_weights(int count) {
  test::TableCosts costs = chain_of(count, 1, 1, 1);
  for (int u = 0; u < count; ++u) {
    ParameterUse use;
    use.tensor = u;
    use.given = Bytes(100);
    costs.table.units[u].parameters = {use};
    costs.table.units[u].saved_full = Bytes(10);
    costs.table.units[u].block = "b" + std::to_string(u);
  }
  return costs;
}

Scenario streamed(int ranks, int microbatches, const std::string& schedule, int stages_per_rank, double bandwidth) {
  Scenario scenario = scenario_of(ranks, microbatches, schedule, stages_per_rank);
  scenario.offload = {true, true};
  scenario.cluster.types[0].copy_bandwidth = Bandwidth(bandwidth);
  return scenario;
}

// One card, three stages, two microbatches; a copy takes 1 s at 100 bytes a second. Weights of 0: 0-1, then F to 3; of 1: 1-2, F
// 3-5; of 2 behind the turn of 0: 3-4, F 5-7, B 7-11. Stage 1 is still there: B 11-15. Weights of 0 again behind the turn of 2:
// 11-12, B 15-19. Gradients leave 11-12, 15-16 and 19-20.
TEST(StreamedWeights, OneCardByHand) {
  const Scenario scenario = streamed(1, 2, "looped-bfs", 3, 100);
  const Timeline timeline = estimate(test::lowered(scenario, units_with_weights(3)));
  EXPECT_DOUBLE_EQ(timeline.step_time.base(), 20);
  EXPECT_EQ(metrics(timeline).exposed_communication_s, 0);  // copies of weights and gradients are none
  // 11-12: weights of 1 and of 0, which come, gradients of 1 and of 2, which leave.
  EXPECT_EQ(timeline.devices.at(0).peak, Bytes(400));
}

// Copies of 4 s. Weights of 0: 0-4, F 4-6; of 1: 4-8, F 8-10; of 2: 8-12, F 12-14, B 14-18; B of 1: 18-22; of 0 again 18-22, B
// 22-26, gradients 26-30.
TEST(StreamedWeights, OneCardThatWaitsForItsWeights) {
  const Scenario scenario = streamed(1, 2, "looped-bfs", 3, 25);
  EXPECT_DOUBLE_EQ(estimate(test::lowered(scenario, units_with_weights(3))).step_time.base(), 30);
}

// Weights that stay move once each way, and nothing is kept on the devices but them.
TEST(StreamedWeights, OfAPipelineMoveOnce) {
  const TaskGraph graph = test::lowered(streamed(4, 8, "1f1b", 1, 1e9), units_with_weights(4));
  std::map<ActionKind, std::int64_t> bytes;
  for (const Task& task : graph.tasks)
    if (task.kind == TaskKind::Reload || task.kind == TaskKind::Offload)
      bytes[task.action.kind] += (task.kind == TaskKind::Reload ? task.take : task.give).base();
  EXPECT_EQ(bytes[ActionKind::Unshard], 400);
  EXPECT_EQ(bytes[ActionKind::Offload], 400);
  for (const RankMemory& memory : graph.memory)
    for (const MemoryPart& part : memory.parts) {
      const bool of_weights = part.use == MemoryUse::Parameters || part.use == MemoryUse::Gradients;
      EXPECT_EQ(of_weights ? part.bytes : Bytes(0), Bytes(0));
    }
}

// roundpipe: each forward leaves its blocks' inputs for the backward, which takes them from wherever they were left.
TEST(StreamedWeights, SlotsLeaveActivationsForEachOther) {
  Scenario scenario = streamed(2, 4, "roundpipe", 1, 1000);
  scenario.schedule.options = {{"forward_slots", "2"}, {"backward_slots", "4"}};
  const test::TableCosts costs = units_with_weights(8);
  const Plan plan = make_plan(scenario, costs);
  const TaskGraph graph = lower(scenario, plan, costs);
  const TaskTimes times = estimate_times(graph);
  std::map<ActionKind, std::int64_t> bytes, copies;
  const std::vector<Way> ways = ways_of_stages(plan.schedule);
  int before_turn = 0;
  for (std::size_t s = 0; s < ways.size(); ++s)
    if (ways[s] == Way::Forth) before_turn = std::max(before_turn, plan.stages[s].end_unit);
  std::vector<double> left_at(4, 0);  // by microbatch: when the last forward slot's copy has ended
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    const Task& task = graph.tasks[t];
    if (task.kind != TaskKind::Reload && task.kind != TaskKind::Offload) continue;
    if (task.action.microbatch < 0) continue;  // weights and gradients
    ++copies[task.action.kind];
    bytes[task.action.kind] += (task.kind == TaskKind::Reload ? task.take : task.give).base();
    if (task.action.kind == ActionKind::Offload)
      left_at[task.action.microbatch] = std::max(left_at[task.action.microbatch], times.task_end[t].base());
  }
  EXPECT_EQ(copies[ActionKind::Offload], 2 * 4);
  EXPECT_EQ(copies[ActionKind::Reload], 3 * 4);
  EXPECT_EQ(bytes[ActionKind::Offload], 10 * before_turn * 4);  // 10 bytes a block and microbatch
  EXPECT_EQ(bytes[ActionKind::Reload], bytes[ActionKind::Offload]);
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    const Task& task = graph.tasks[t];
    if (task.kind != TaskKind::Reload || task.action.kind != ActionKind::Reload) continue;
    if (plan.stages[task.action.stage].end_unit != before_turn) continue;  // its blocks were left last
    EXPECT_GE(times.task_start[t].base(), left_at[task.action.microbatch]);
  }
}

// A forward slot leaves the inputs of its blocks and nothing else.
TEST(StreamedWeights, SlotsMakeAllActivationsAgain) {
  Scenario scenario = streamed(2, 4, "roundpipe", 1, 1000);
  scenario.schedule.options = {{"forward_slots", "2"}, {"backward_slots", "4"}};
  scenario.recompute = Recompute::Full;
  EXPECT_NO_THROW(make_plan(scenario, units_with_weights(8)));
  scenario.recompute = Recompute::Selective;
  EXPECT_THROW(make_plan(scenario, units_with_weights(8)), InputError);
}

}  // namespace
}  // namespace panpipe
