// Steps of orders whose weights go round the ranks: times by hand, exchanges as the authors' code posts them, memory.
#include <gtest/gtest.h>

#include <map>

#include "base/error.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "costmodel/lowering/task_graph.hpp"
#include "tests/costmodel/lowering/tables.hpp"

namespace panpipe {
namespace {

using test::chain_of;
using test::scenario_of;

// Units of F = 1 s and B = 2 s; an exchange of any size takes `hop` seconds.
test::TableCosts units_of(int count, double hop) {
  test::TableCosts costs = chain_of(count, 1, 1, 1);
  costs.collective_time = Duration(hop);
  return costs;
}

double step(int ranks, int microbatches, double hop) {
  return estimate(test::lowered(scenario_of(ranks, microbatches, "weipipe"), units_of(ranks, hop))).step_time.base();
}

// Exchanges that take no time; what a turn needs begins to come when all have ended the turn before the last. Of two ranks
// neither waits: 2 stages of F + B, once and twice. Of three, rank 2 waits for what rank 0 has in turn 1 until that has run turn
// 0: its F are at 1-4; the weights of its first B (turn 5) until rank 0 has run turn 3, a B, at 3-5: its B are at 5-11.
TEST(TravellingWeights, WithoutTransferTimesOnlyTheBeginningIsLate) {
  EXPECT_DOUBLE_EQ(step(2, 2, 0), 2 * 3);
  EXPECT_DOUBLE_EQ(step(2, 4, 0), 2 * 2 * 3);
  EXPECT_DOUBLE_EQ(step(3, 3, 0), 11);
}

// Exchanges of 10 s set the pace. Two ranks, a microbatch each. Weights for F of turn 1: 0-10, F of both 10-11; in turn 2 a rank
// has its own: F of rank 1 11-12, B of rank 0 11-13. Weights for B of turn 3: 11-21, B of both 21-23; gradients of turn 2: 21-31;
// weights for B of turn 4: 31-41, B of rank 1 41-43; gradients of turn 3 41-51, of turn 4 51-61.
TEST(TravellingWeights, SlowLinksSetThePace) { EXPECT_DOUBLE_EQ(step(2, 2, 10), 61); }

// Exchanges of a rank in a step: F P-1 in each round of P turns, B one in each turn but the first, gradients one in each; those
// of the authors' code with 3 ranks and 2 microbatches each (their own weights need none).
TEST(TravellingWeights, ExchangesAreThoseOfTheAuthorsCode) {
  const Scenario scenario = scenario_of(3, 6, "weipipe");
  const TaskGraph graph = test::lowered(scenario, units_of(3, 1));
  std::map<std::pair<int, std::int32_t>, int> exchanges;  // by rank and flow
  std::map<std::int32_t, std::vector<std::int32_t>> order;
  for (const Task& task : graph.tasks)
    if (task.kind == TaskKind::Collective) {
      ++exchanges[{task.rank, task.flow}];
      order[task.rank].push_back(task.flow);
    }
  ASSERT_EQ(graph.cross_rank_flows.size(), 3U) << "and none that sums gradients of whole models";
  const std::vector<int> expected = {7 - 2, 8 - 1, 8};  // of 8 turns; turns 3 and 6 begin with a rank's own weights
  for (int rank = 0; rank < 3; ++rank)
    for (std::size_t hop = 0; hop < 3; ++hop)
      EXPECT_EQ((exchanges[{rank, graph.cross_rank_flows[hop].flow}]), expected[hop]) << rank << " " << hop;
  EXPECT_EQ(order[0], order[1]) << "all members come to them in one order";
  EXPECT_EQ(order[0], order[2]);
  EXPECT_EQ(graph.cross_rank_flows[0].ranks, (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(graph.cross_rank_flows[1].ranks, (std::vector<std::int32_t>{2, 1, 0}));
}

Bytes part(const RankMemory& memory, MemoryUse use) {
  for (const MemoryPart& one : memory.parts)
    if (one.use == use) return one.bytes;
  return Bytes(0);
}

// Of four stages a rank holds one with its optimizer, and buffers for two more of forwards, two of backwards and two of
// gradients.
TEST(TravellingWeights, RanksHoldOneStage) {
  const test::TableCosts costs = units_of(4, 0);
  const auto lowered = [&](int ranks, const char* schedule) {
    Scenario scenario = scenario_of(ranks, 4, schedule);
    scenario.optimizer.name = "adam";
    return test::lowered(scenario, costs);
  };
  const TaskGraph whole = lowered(1, "gpipe"), round = lowered(4, "weipipe");
  const Bytes weights = part(whole.memory[0], MemoryUse::Parameters), optimizer = part(whole.memory[0], MemoryUse::Optimizer);
  ASSERT_GT(weights, Bytes(0));
  for (const RankMemory& memory : round.memory) {
    EXPECT_EQ(4 * part(memory, MemoryUse::Optimizer), optimizer);
    EXPECT_GT(4 * part(memory, MemoryUse::Parameters), 5 * weights);
    EXPECT_LE(4 * part(memory, MemoryUse::Parameters), 7 * weights);
  }
}

TEST(TravellingWeights, NeedsOneReplica) {
  EXPECT_THROW(test::lowered(scenario_of(2, 2, "weipipe", 1, 2), units_of(2, 0)), InputError);
}

}  // namespace
}  // namespace panpipe
