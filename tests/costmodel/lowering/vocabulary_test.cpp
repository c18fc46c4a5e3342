// A vocabulary that is cut over all ranks: what each rank runs, holds and exchanges, by closed forms.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/costmodel/lowering/tables.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

Scenario scenario_with(int pipeline, int microbatches, const std::string& family, const std::string& barriers) {
  Scenario scenario = test::scenario_of(pipeline, microbatches, family);
  scenario.schedule.options = {{"vocabulary", "stages"}, {"vocabulary_barriers", barriers}};
  return scenario;
}

double busy_ms(const TaskGraph& graph, int rank) {
  double ticks = 0;
  for (const Task& task : graph.tasks)
    if (task.rank == rank && task.lane == Lane::Compute && task.kind == TaskKind::Pass)
      ticks += graph.programs[task.program].duration.base();
  return ticks * 1e-9;
}

// Six units of 1 + 1 + 1 ms: the embedding, four of the stages, the head. Of two ranks each runs two units, 6 ms, and half of the
// others' passes, 3 ms: 4 microbatches x 9 ms = 36 ms.
TEST(VocabularyShares, EveryRankRunsItsPartOfTheVocabulary) {
  const test::TableCosts costs = test::chain_of(6, 1e-3, 1e-3, 1e-3);
  for (const char* barriers : {"1", "2"}) {
    const Scenario scenario = scenario_with(2, 4, "1f1b", barriers);
    const Plan plan = make_plan(scenario, costs);
    EXPECT_EQ(plan.stages[0].first_unit, 1);
    EXPECT_EQ(plan.stages[1].first_unit, 3);
    EXPECT_EQ(plan.stages[1].end_unit, 5);
    const TaskGraph graph = lower(scenario, plan, costs);
    EXPECT_NEAR(busy_ms(graph, 0), 36, 1e-9);
    EXPECT_NEAR(busy_ms(graph, 1), 36, 1e-9);
    // S has the head's forward and, with one barrier, its input gradient: (1 + 1) / 2 ms, or 1 / 2.
    for (const Task& task : graph.tasks)
      if (task.action.kind == ActionKind::S && task.kind == TaskKind::Pass) {
        EXPECT_NEAR(graph.programs[task.program].duration.base() * 1e-9, barriers[0] == '1' ? 1 : 0.5, 1e-9);
      }
  }
}

// 100 elements a unit: two units and half of the embedding's and the head's are 300 elements of 4 bytes on either rank.
TEST(VocabularyShares, EveryRankHoldsItsRows) {
  const TaskGraph graph = test::lowered(scenario_with(2, 4, "1f1b", "1"), test::chain_of(6, 1e-3, 1e-3, 1e-3));
  for (const RankMemory& memory : graph.memory) EXPECT_EQ(memory.parts[0].bytes, Bytes(300 * 4));
}

// The head saves 1000 bytes, 8 of them the last stage's result: each rank keeps that and half of the rest, 8 + 496, from S to T.
TEST(VocabularyShares, APartOfTheLogitsStaysFromSToT) {
  const TaskGraph graph = test::lowered(scenario_with(2, 4, "interleaved-1f1b", "1"), test::chain_of(6, 1e-3, 1e-3, 1e-3, 1000));
  int found = 0;
  for (const Task& task : graph.tasks) {
    if (task.kind != TaskKind::Pass || (task.action.kind != ActionKind::S && task.action.kind != ActionKind::T)) continue;
    EXPECT_EQ(task.action.kind == ActionKind::S ? task.take : task.give, Bytes(504));
    ++found;
  }
  EXPECT_EQ(found, 2 * 2 * 4);
}

// Five exchanges of a microbatch, in one order on a lane of their own.
TEST(VocabularyShares, AllRanksExchangeInOneOrder) {
  const TaskGraph graph = test::lowered(scenario_with(3, 6, "1f1b", "2"), test::chain_of(8, 1e-3, 1e-3, 1e-3));
  std::vector<std::vector<std::int32_t>> lanes(3);
  for (const Task& task : graph.tasks)
    if (task.lane == Lane::Vocabulary) lanes[task.rank].push_back(task.flow);
  EXPECT_EQ(lanes[0].size(), 5u * 6u);
  EXPECT_EQ(lanes[1], lanes[0]);
  EXPECT_EQ(lanes[2], lanes[0]);
  EXPECT_EQ(graph.cross_rank_flows.size(), 5u);
}

// Exchanges of 1 ms. One microbatch on two ranks, whose passes follow one another: E 0.5, sum 1, F 2 + 2, result 1, S 1,
// statistics and gradient 1 + 1, B 4 + 4, gradient of the embedding 1, G 1, and T 0.5, which the authors' order has last: 20 ms.
TEST(VocabularyShares, OneMicrobatchTakesThemAllInTurn) {
  test::TableCosts costs = test::chain_of(6, 1e-3, 1e-3, 1e-3);
  costs.collective_time = millis(1);
  EXPECT_NEAR(test::step(scenario_with(2, 1, "1f1b", "1"), costs) * 1e3, 20, 1e-9);
}

TEST(VocabularyShares, ReplicasThatDivideGradientsAreRefused) {
  Scenario scenario = scenario_with(2, 4, "1f1b", "1");
  scenario.degrees.zero = 2;
  scenario.degrees.data = 2;
  scenario.cluster.devices.push_back({0, 0, 2});
  scenario.cluster.devices.push_back({0, 0, 3});
  EXPECT_EQ(test::diagnostic_of([&] { test::lowered(scenario, test::chain_of(6, 1e-3, 1e-3, 1e-3)); }).message,
            "a vocabulary that is cut over the stages and ZeRO 2 and 3 do not go together: its gradients and parameters are not "
            "divided over replicas as well");
}

}  // namespace
}  // namespace panpipe
