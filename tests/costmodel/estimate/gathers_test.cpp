// Parameters that come block by block during passes, and gradients that go so: steps by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "costmodel/estimate/compile.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "costmodel/estimate/replay.hpp"
#include "costmodel/lowering/pass_lanes.hpp"
#include "costmodel/lowering/task_graph.hpp"
#include "tests/costmodel/lowering/tables.hpp"

namespace panpipe {
namespace {

using test::lowered;
using test::scenario_of;

// Blocks of F = I = W = 1 s with 100 parameters of 4 bytes: a block is gathered in `gather` and reduced in `reduce` seconds.
test::TableCosts blocks_of(int count, double gather, double reduce) {
  test::TableCosts costs = test::chain_of(count, 1, 1, 1);
  costs.gather_per_byte = gather / 400;
  costs.scatter_per_byte = costs.sum_per_byte = reduce / 400;
  return costs;
}

Scenario one_rank(int zero, int microbatches = 1) {
  Scenario scenario = scenario_of(1, microbatches, "1f1b", 1, 2);
  scenario.degrees.zero = zero;
  return scenario;
}

double fixed_step(const Scenario& scenario, const LoweringCosts& costs) {
  const TaskGraph graph = lowered(scenario, costs);
  const double time = estimate(graph).step_time.base();
  EXPECT_TRUE(durations_are_fixed(graph));
  const CompiledGraph compiled = compile(graph);
  std::vector<double> ends(compiled.structure.tasks + 1);
  EXPECT_NEAR(replay(compiled.structure, compiled.costs.data(), compiled.delays.data(), ends.data()) * 1e-12, time, 1e-9);
  return time;
}

// n blocks, forwards of 1 s, backwards of 2 s, two blocks whole at once. Forward: the gather of block k + 1 starts when block
// k - 1 has run and the gather of block k is over, so that block k runs from g + k max(1, g). Backward: its first gather runs
// with the forward's last block, or behind the forward's last gather. With each block but the first and the last run the
// reduction of the one before and the gather of the next: from the second block on one starts every max(2, r + g). With the
// last block runs only the reduction of the one before; its own is exposed.
double by_hand(int n, double g, double r) {
  const double first_backward_ends = (g <= 1 ? g + n : (n + 1) * g) + 2;
  return first_backward_ends + (n - 2) * std::max(2.0, r + g) + std::max(2.0, r) + r;
}

TEST(Gathers, OverlapTheBlockBefore) {
  for (const int blocks : {2, 5, 12})
    for (const double gather : {0.25, 1.0, 1.5, 2.0})
      for (const double reduce : {0.0, 0.5, 2.0, 3.0})
        EXPECT_NEAR(fixed_step(one_rank(3), blocks_of(blocks, gather, reduce)), by_hand(blocks, gather, reduce), 1e-9)
            << blocks << " blocks, gather " << gather << ", reduction " << reduce;
}

// Nothing asked ahead: in the backward a gather stands behind the reduction of the block before, so that both are exposed. The
// forward has no reductions between.
TEST(Gathers, WithoutPrefetchTheBackwardWaitsForBoth) {
  Scenario scenario = one_rank(3);
  scenario.framework.gather_prefetch = 0;
  for (const double reduce : {0.5, 3.0})  // g + n, n blocks of 2 s, n - 1 times r + g, the last reduction
    EXPECT_NEAR(fixed_step(scenario, blocks_of(6, 0.5, reduce)), 0.5 + 6 + 12 + 5 * (reduce + 0.5) + reduce, 1e-9);
}

// One block whole at a time: every gather and every reduction is exposed.
TEST(Gathers, OneInFlightHidesNothing) {
  Scenario scenario = one_rank(3);
  scenario.framework.gathers_in_flight = 1;
  EXPECT_NEAR(fixed_step(scenario, blocks_of(6, 0.5, 0.75)), 6 * (0.5 + 1) + 6 * (0.5 + 2 + 0.75), 1e-9);
}

// Never below what either lane has to do: the first gather and all passes, or all gathers and the last block's backward.
TEST(Gathers, MoreInFlightAreNeverSlower) {
  Scenario scenario = one_rank(3, 2);
  for (const double gather : {0.3, 1.0, 1.9, 4.0}) {
    double before = 1e9;
    for (const int most : {1, 2, 3, 6}) {
      scenario.framework.gathers_in_flight = most;
      const double time = fixed_step(scenario, blocks_of(6, gather, 0));
      EXPECT_LE(time, before + 1e-9) << most << " in flight, gather " << gather;
      EXPECT_GE(time, std::max(gather + 2 * 6 * 3, 24 * gather + 2) - 1e-9);  // the lanes' own work
      before = time;
    }
  }
}

// With a gather of 0.5 s a block loses a fifth of the overlapped time: 1.1 s and 2.1 s, but for the last block of a pass, with
// which the model has no gather: 1 s and 2 s.
TEST(Gathers, SlowTheComputeThatOverlapsThem) {
  test::TableCosts costs = blocks_of(6, 0.5, 0);
  costs.slowdown = 0.2;
  EXPECT_NEAR(fixed_step(one_rank(3), costs), 0.5 + 5 * 1.1 + 1 + 5 * 2.1 + 2, 1e-9);
  // Gathers longer than the block that overlaps them: it is slow all the time, 1 / 0.8 = 1.25 s, and still over before they are.
  test::TableCosts slow = blocks_of(6, 1.6, 0);
  const double forward_and_one = 7 * 1.6 + (2 + 0.2 * 1.6);  // 2 s with 1.6 s
  slow.slowdown = 0.2;
  EXPECT_NEAR(fixed_step(one_rank(3), slow), forward_and_one + 4 * (2 + 0.2 * 1.6) + 2, 1e-9);
}

// Blocks with what stands before and behind them: the embedding and the head are one group, gathered before the first and reduced
// behind the last of them that a pass runs. A tied parameter of both is gathered once.
TEST(Gathers, WhatStandsOutsideBlocksIsOneGroup) {
  test::TableCosts costs = blocks_of(6, 0.5, 0.5);
  costs.table.units.front().block = costs.table.units.back().block = "";
  for (int u = 1; u < 5; ++u) costs.table.units[u].block = "h." + std::to_string((u - 1) / 2);
  const auto traffic = [&](ActionKind kind) {
    const TaskGraph graph = lowered(one_rank(3), costs);
    std::vector<std::int64_t> bytes;
    for (const Task& task : graph.tasks)
      if (task.kind == TaskKind::Collective && task.action.kind == kind)
        bytes.push_back(graph.flows[task.flow].cost.bytes.base());
    return bytes;
  };
  // Forward: outside (2 units), h.0 (2), h.1 (2); backward: outside, h.1, h.0.
  EXPECT_EQ(traffic(ActionKind::Unshard), (std::vector<std::int64_t>{800, 800, 800, 800, 800, 800}));
  EXPECT_EQ(traffic(ActionKind::ReduceGrad), (std::vector<std::int64_t>{800, 800, 800}));
  costs.table.units[5].parameters = costs.table.units[0].parameters;
  EXPECT_EQ(traffic(ActionKind::Unshard), (std::vector<std::int64_t>{400, 800, 800, 400, 800, 800}));
  EXPECT_EQ(traffic(ActionKind::ReduceGrad), (std::vector<std::int64_t>{800, 800, 400}));
}

// The parts of a pass take no longer than the pass, and show all of its work.
TEST(Gathers, PartsAddUpToThePass) {
  const TaskGraph graph = lowered(one_rank(3), blocks_of(7, 0, 0));
  Ticks forward(0), backward(0);
  for (const Task& task : graph.tasks) {
    if (task.kind != TaskKind::Pass) continue;
    (task.action.kind == ActionKind::F ? forward : backward) += graph.programs[task.program].duration;
  }
  EXPECT_EQ(forward.base(), 7e12);
  EXPECT_EQ(backward.base(), 14e12);
}

// ZeRO 1: reduce-scatters of 6 r behind the passes and gathers of 6 g behind the optimizer; or the gathers during the first
// forward, which then takes g + 5 max(1, g) + 1 in place of 6.
TEST(UpdatedParameters, AreGatheredBehindTheOptimizerOrDuringTheNextForward) {
  for (const int microbatches : {1, 3})
    for (const double gather : {0.5, 2.5}) {
      Scenario scenario = one_rank(1, microbatches);
      const test::TableCosts costs = blocks_of(6, gather, 0.25);
      const double passes = 18.0 * microbatches;
      EXPECT_NEAR(fixed_step(scenario, costs), passes + 6 * 0.25 + 6 * gather, 1e-9);
      scenario.framework.overlap_parameter_gather = true;
      const double first = gather + 5 * std::max(1.0, gather) + 1;
      EXPECT_NEAR(fixed_step(scenario, costs), passes - 6 + first + 6 * 0.25, 1e-9);
    }
}

// A framework states which reductions run during the last backward; the scenario's own value has precedence.
TEST(Reductions, RunDuringTheBackwardWhereTheFrameworkStatesIt) {
  for (const int zero : {0, 1}) {
    Scenario scenario = one_rank(zero);
    scenario.gradient_bucket = Bytes(400);
    const test::TableCosts costs = blocks_of(6, 0, 1.5);
    const double awaited = 18 + 6 * 1.5, overlapped = 18 + 1.5;
    EXPECT_NEAR(fixed_step(scenario, costs), awaited, 1e-9);
    (zero == 0 ? scenario.framework.overlap_reduce_scatter : scenario.framework.overlap_all_reduce) = true;
    EXPECT_NEAR(fixed_step(scenario, costs), awaited, 1e-9) << "the other stage's key";
    (zero == 0 ? scenario.framework.overlap_all_reduce : scenario.framework.overlap_reduce_scatter) = true;
    EXPECT_NEAR(fixed_step(scenario, costs), overlapped, 1e-9);
    scenario.overlap_gradients = false;
    EXPECT_NEAR(fixed_step(scenario, costs), awaited, 1e-9);
  }
}

}  // namespace
}  // namespace panpipe
