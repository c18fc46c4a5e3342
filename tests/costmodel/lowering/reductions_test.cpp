#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.hpp"
#include "tests/costmodel/lowering/action_replay.hpp"
#include "tests/costmodel/lowering/tables.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

using test::chain_of;
using test::scenario_of;

struct Made {
  TaskGraph graph;
  int count(ActionKind kind, int rank) const {
    return static_cast<int>(std::count_if(graph.tasks.begin(), graph.tasks.end(), [&](const Task& task) {
      return task.kind == TaskKind::Collective && task.action.kind == kind && task.rank == rank;
    }));
  }
  double makespan_ms() const { return test::replay(graph).makespan * 1e-9; }
  CollectiveKind kind_of(ActionKind kind) const {
    for (const Task& task : graph.tasks)
      if (task.kind == TaskKind::Collective && task.action.kind == kind) return graph.flows[task.flow].cost.kind;
    return CollectiveKind::None;
  }
};

// Two ranks of two stages each, F, I and W of 1 ms, four microbatches, two replicas; collectives take 1 ms.
Made lowered(int zero, bool overlap, int data = 2) {
  test::TableCosts costs = chain_of(4, 1e-3, 1e-3, 1e-3);
  costs.collective_time = millis(1);
  Scenario scenario = scenario_of(2, 4, "interleaved-1f1b", 2, data);
  scenario.degrees.zero = zero;
  scenario.overlap_gradients = overlap;
  return {test::lowered(scenario, costs)};
}

TEST(Reductions, OneReplicaReducesNothing) {
  const Made made = lowered(0, true, 1);
  EXPECT_TRUE(made.graph.flows.empty());
  EXPECT_EQ(made.count(ActionKind::ReduceGrad, 0), 0);
}

// Interleaved, two stages a rank: (2 m + p - 1) x 3 ms = 27 ms of passes. Two all-reduces of 1 ms follow; overlapped, that of the
// later stage hides behind the backwards of the earlier one.
TEST(Reductions, AfterTheLastBackwardOrDuringIt) {
  EXPECT_EQ(lowered(0, false).count(ActionKind::ReduceGrad, 0), 2);
  EXPECT_NEAR(lowered(0, false).makespan_ms(), 27 + 2, 1e-9);
  EXPECT_NEAR(lowered(0, true).makespan_ms(), 27 + 1, 1e-9);
  EXPECT_EQ(lowered(0, true).kind_of(ActionKind::ReduceGrad), CollectiveKind::AllReduce);
}

// ZeRO 1: reduce-scatters before the optimizer, all-gathers of the parameters after it.
TEST(Reductions, Zero1GathersParametersAfterTheOptimizer) {
  const Made made = lowered(1, false);
  EXPECT_EQ(made.kind_of(ActionKind::ReduceGrad), CollectiveKind::ReduceScatter);
  EXPECT_EQ(made.kind_of(ActionKind::Unshard), CollectiveKind::AllGather);
  EXPECT_EQ(made.count(ActionKind::Unshard, 1), 2);
  EXPECT_NEAR(made.makespan_ms(), 27 + 2 + 2, 1e-9);
}

// ZeRO 2 keeps no whole gradients: every backward is followed by its reduce-scatter, during the passes after it.
TEST(Reductions, Zero2ReducesEveryMicrobatch) {
  EXPECT_EQ(lowered(2, false).count(ActionKind::ReduceGrad, 0), 2 * 4);
  EXPECT_TRUE(test::replay(lowered(2, false).graph).finished);
}

// ZeRO 3 gathers a stage's parameters before each F and B, while the pass before runs. Stages of one block: a forward is followed
// by one of its own kind over the same block, which it leaves there; rank 0 changes its stage and takes another block.
TEST(Reductions, Zero3GathersBeforeEveryPass) {
  const Made made = lowered(3, false);
  EXPECT_EQ(made.count(ActionKind::Unshard, 0), 2 * 2 * 4);
  EXPECT_TRUE(test::replay(made.graph).finished);
  std::int64_t left = 0;
  for (const Task& task : made.graph.tasks) left += task.take.base() - task.give.base();
  EXPECT_EQ(left, 0);
  const auto pass = [&](const char* text) { return made.graph.tasks[test::find_task(made.graph, text)]; };
  EXPECT_EQ(pass("0F0").give, Bytes(0));        // 0F1 follows on the same block
  EXPECT_EQ(pass("0F1").give, Bytes(100 * 4));  // 2F0 follows on another: 100 elements in fp32
}

// Unit 3 (rank 1) uses the parameter of unit 0 (rank 0), as a head uses the embedding.
TEST(TiedParameters, TheirGradientsAreAddedUpBetweenTheHolders) {
  test::TableCosts costs = chain_of(4, 1e-3, 1e-3, 1e-3);
  costs.table.units[3].parameters.push_back({0, 100, Bytes(0)});
  costs.collective_time = millis(1);
  Scenario scenario = scenario_of(2, 4, "1f1b");
  const TaskGraph graph = test::lowered(scenario, costs);
  ASSERT_EQ(graph.cross_rank_flows.size(), 1u);
  EXPECT_EQ(graph.cross_rank_flows[0].ranks, (std::vector<std::int32_t>{0, 1}));
  const auto flow = graph.cross_rank_flows[0].flow;
  EXPECT_EQ(graph.flows[flow].cost.bytes, Bytes(100 * 4));
  const auto tasks = std::count_if(graph.tasks.begin(), graph.tasks.end(), [&](const Task& task) { return task.flow == flow; });
  EXPECT_EQ(tasks, 2);  // one per rank
  // Both ranks count it in their memory: 3 x 100 elements of 4 bytes on rank 1.
  EXPECT_EQ(graph.memory[0].parts[0].bytes, Bytes(2 * 100 * 4));
  EXPECT_EQ(graph.memory[1].parts[0].bytes, Bytes(3 * 100 * 4));

  scenario.tied_embedding = TiedEmbedding::OneRank;
  const Diagnostic fault = test::diagnostic_of([&] { test::lowered(scenario, costs); });
  EXPECT_EQ(
      fault.message,
      "tied_embedding: one-rank needs the embedding and the head on one rank, but the stages that use it are on ranks 0 and 1");
  EXPECT_EQ(fault.help, "use tied_embedding: copy, or a schedule whose first and last stage share a rank");
}

TEST(TiedParameters, OnOneRankTheyAreHeldOnce) {
  test::TableCosts costs = chain_of(4, 1e-3, 1e-3, 1e-3);
  costs.table.units[3].parameters = {{0, 100, Bytes(0)}};
  Scenario scenario = scenario_of(1, 4, "1f1b");
  scenario.tied_embedding = TiedEmbedding::OneRank;
  const TaskGraph graph = test::lowered(scenario, costs);
  EXPECT_TRUE(graph.cross_rank_flows.empty());
  EXPECT_EQ(graph.memory[0].parts[0].bytes, Bytes(3 * 100 * 4));
}

// 100 elements a unit at 1 us each, two units a stage: 0.2 ms more in W, or in B, of every microbatch; nothing in F, I and OPT.
TEST(Accumulation, BelongsToTheBackwardPasses) {
  test::TableCosts costs = chain_of(4, 1e-3, 1e-3, 1e-3);
  costs.accumulation_per_element = 1e-6;
  for (const char* schedule : {"1f1b", "zb-h1"}) {
    const Scenario scenario = scenario_of(2, 4, schedule);
    const TaskGraph graph = test::lowered(scenario, costs);
    int passes = 0;
    for (const Task& task : graph.tasks) {
      const double own = task.action.kind == ActionKind::B ? 4 : task.kind == TaskKind::Optimizer ? 0 : 2;
      const bool adds = task.action.kind == ActionKind::B || task.action.kind == ActionKind::W;
      const Program& program = graph.programs[task.program];
      EXPECT_NEAR(program.duration.base(), (own + (adds ? 0.2 : 0)) * 1e9, 1) << schedule << " " << to_text(task.action);
      EXPECT_NEAR(program.breakdown.memory.base(), adds ? 0.2e-3 : 0, 1e-12);
      passes += adds ? 1 : 0;
    }
    EXPECT_EQ(passes, 2 * 4);
  }
}

// Two replicas under ZeRO 3, a launch takes 1 ms. The first block computes 2 ms with 8 launches, the second 10 with 4: 8 and 10
// ms, for any computation of the other one.
TEST(Zero3, APartTakesTheTimeOfItsOwnLaunches) {
  test::TableCosts costs = chain_of(2, 10e-3, 1e-3, 1e-3);
  costs.host_floor = 1e-3;
  costs.table.units[1].forward.host.launches = 4;
  for (const double first : {2e-3, 0.1e-3}) {
    costs.table.units[0].forward = test::pass_of(first);
    costs.table.units[0].forward.host.launches = 8;
    Scenario scenario = scenario_of(1, 1, "gpipe", 1, 2);
    scenario.degrees.zero = 3;
    const TaskGraph graph = test::lowered(scenario, costs);
    std::vector<double> parts;
    for (const Task& task : graph.tasks)
      if (task.kind == TaskKind::Pass && task.action.kind == ActionKind::F)
        parts.push_back(graph.programs[task.program].duration.base());
    ASSERT_EQ(parts.size(), 2U);
    EXPECT_NEAR(parts[0], 8e9, 1) << first;
    EXPECT_NEAR(parts[1], 10e9, 1) << first;
  }
}

// The optimizer runs once per rank, after its gradients: 2 units x (100 elements x 1 us + a tensor x 0.1 ms).
TEST(Optimizer, OncePerRankOverItsParameters) {
  test::TableCosts costs = chain_of(4, 1e-3, 1e-3, 1e-3);
  costs.optimizer_per_element = 1e-6;
  costs.optimizer_per_tensor = 0.1e-3;
  costs.table.units[0].optimizer = millis(5);  // measured layers bring theirs
  const Scenario scenario = scenario_of(2, 4, "1f1b");
  const TaskGraph graph = test::lowered(scenario, costs);
  std::vector<double> times;
  for (const Task& task : graph.tasks)
    if (task.kind == TaskKind::Optimizer) times.push_back(graph.programs[task.program].duration.base());
  EXPECT_EQ(times, (std::vector<double>{5.4e9, 0.4e9}));
}

}  // namespace
}  // namespace panpipe
