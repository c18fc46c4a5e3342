// ZeRO inside groups of the replicas: gathers and reduce-scatters in a shard group, then sums among those that hold the same
// shard.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "costmodel/estimate/estimate.hpp"
#include "costmodel/lowering/task_graph.hpp"
#include "tests/costmodel/lowering/tables.hpp"

namespace panpipe {
namespace {

using test::lowered;
using test::step;

// Blocks of F = I = W = 1 s with 100 parameters of 4 bytes. Of a whole block: seconds of a gather, a reduce-scatter, an
// all-reduce; nothing else counts, so that a group's size is seen in the bytes alone.
test::TableCosts blocks_of(int count, double gather, double scatter, double sum) {
  test::TableCosts costs = test::chain_of(count, 1, 1, 1);
  costs.gather_per_byte = gather / 400;
  costs.scatter_per_byte = scatter / 400;
  costs.sum_per_byte = sum / 400;
  return costs;
}

Scenario one_rank(int zero, int shard, int data = 4, int microbatches = 1) {
  Scenario scenario = test::scenario_of(1, microbatches, "1f1b", 1, data);
  scenario.degrees.zero = zero;
  scenario.degrees.shard = shard;
  return scenario;
}

// Bytes of the data lane by kind of collective and whose it is.
std::int64_t bytes_of(const TaskGraph& graph, CollectiveKind kind, Among among) {
  std::int64_t sum = 0;
  for (const Task& task : graph.tasks) {
    if (task.flow < 0) continue;
    const CollectiveFlow& flow = graph.flows[task.flow];
    if (flow.cost.kind == kind && flow.among == among) sum += flow.cost.bytes.base();
  }
  return sum;
}

// ZeRO 1 awaited, 4 replicas in groups of 2, five blocks: F + B = 15 s; the whole scattered in the group, half of it summed
// between the two groups, the whole gathered in the group.
TEST(Shards, Zero1ScattersSumsAndGathers) {
  EXPECT_NEAR(step(one_rank(1, 2), blocks_of(5, 0.25, 0.5, 2)), 15 + 5 * 0.5 + 5 * 2.0 / 2 + 5 * 0.25, 1e-9);
  EXPECT_NEAR(step(one_rank(1, 4), blocks_of(5, 0.25, 0.5, 2)), 15 + 5 * 0.5 + 5 * 0.25, 1e-9);
}

// ZeRO 2 does so behind every backward: of two microbatches the second's backward overlaps the first's reduction of 2.5 + 5 s,
// 10 of its 15 s of passes are behind it.
TEST(Shards, Zero2SumsEveryMicrobatch) {
  EXPECT_NEAR(step(one_rank(2, 2, 4, 2), blocks_of(5, 0.25, 0.5, 2)), 30 + 7.5 + 5 * 0.25, 1e-9);
  const TaskGraph graph = lowered(one_rank(2, 2, 4, 2), blocks_of(5, 0.25, 0.5, 2));
  EXPECT_EQ(bytes_of(graph, CollectiveKind::ReduceScatter, Among::ShardGroup), 2 * 2000);
  EXPECT_EQ(bytes_of(graph, CollectiveKind::AllReduce, Among::Holders), 2 * 2000 / 2);
}

// ZeRO 3 of n blocks, two whole at once, gathers g and reductions r = scatter + sum / S, which are one behind another on the data
// lane: as with all replicas in one group, with that r (docs/models/lowering.md, Parts).
TEST(Shards, Zero3ReducesBlockByBlock) {
  constexpr double kGather = 0.25;
  for (const int n : {2, 5, 12})
    for (const double scatter : {0.25, 1.5})
      for (const double sum : {0.5, 3.0})
        for (const int shard : {2, 4}) {
          const double r = scatter + sum / shard, f = 1, b = 2;
          const double by_hand = kGather + n * f + b + (n - 2) * std::max(b, kGather + r) + std::max(b, r) + r;
          EXPECT_NEAR(step(one_rank(3, shard, 8), blocks_of(n, kGather, scatter, sum)), by_hand, 1e-9)
              << n << " blocks, scatter " << scatter << ", sum " << sum << ", groups of " << shard;
        }
}

// One group of all replicas is what no word about it is; groups of one exchange what replicas without ZeRO do. To the tick.
TEST(Shards, TheEndsAreZeroOverAllAndNoZero) {
  const test::TableCosts costs = blocks_of(6, 0.3, 0.7, 1.9);
  for (const int zero : {1, 2, 3})
    for (const bool overlaps : {false, true}) {
      const auto with = [&](int level, int shard) {
        Scenario scenario = one_rank(level, shard, 4, 3);
        scenario.gradient_bucket = Bytes(700);
        if (overlaps) scenario.overlap_gradients = true;
        return lowered(scenario, costs);
      };
      const TaskGraph all = with(zero, 0), four = with(zero, 4), one = with(zero, 1), none = with(0, 0);
      EXPECT_EQ(estimate(four).step_time, estimate(all).step_time) << "ZeRO " << zero;
      EXPECT_EQ(four.tasks.size(), all.tasks.size());
      EXPECT_EQ(estimate(one).step_time, estimate(none).step_time) << "ZeRO " << zero;
      EXPECT_EQ(bytes_of(one, CollectiveKind::AllReduce, Among::Data), bytes_of(none, CollectiveKind::AllReduce, Among::Data));
      EXPECT_EQ(bytes_of(one, CollectiveKind::AllGather, Among::Data), 0);
    }
}

// Buckets of two blocks during the backward: each is scattered and then summed, 2 x (0.5 + 1) s, ready every 4 s.
TEST(Shards, BucketsAreScatteredAndSummed) {
  Scenario scenario = one_rank(1, 2);
  scenario.overlap_gradients = true;
  scenario.gradient_bucket = Bytes(800);
  EXPECT_NEAR(step(scenario, blocks_of(6, 0.25, 0.5, 2)), 6 + 12 + 3 + 6 * 0.25, 1e-9);
}

// Given bytes: 400 a block of weights, gradients and nothing of an optimizer; a group of 2 of 4 replicas holds halves.
TEST(Shards, DivideMemory) {
  test::TableCosts costs = blocks_of(5, 0, 0, 0);
  for (UnitCost& unit : costs.table.units) unit.parameters.front() = {-1, 0, Bytes(400)};
  const auto part = [&](int zero, int shard, MemoryUse use) {
    const TaskGraph graph = lowered(one_rank(zero, shard), costs);
    for (const auto& entry : graph.memory.front().parts)
      if (entry.use == use) return entry.bytes.base();
    return std::int64_t{-1};
  };
  for (const int shard : {1, 2, 4}) {
    EXPECT_EQ(part(3, shard, MemoryUse::Parameters), 2000 / shard);
    EXPECT_EQ(part(2, shard, MemoryUse::Gradients), 2000 / shard);
    EXPECT_EQ(part(1, shard, MemoryUse::Gradients), 2000);
  }
}

}  // namespace
}  // namespace panpipe
