#include <gtest/gtest.h>

#include "costmodel/estimate/replay.hpp"
#include "tests/costmodel/estimate/pipeline_graph.hpp"

namespace panpipe {
namespace {

using testing::even_tables;
using testing::random_tables;
using testing::Tables;

double step_time(const PipelineOrder& order, const Tables& tables) {
  Structure s;
  EXPECT_TRUE(StructureBuilder().build(order, s));
  std::vector<double> ends(s.tasks + 1);
  return replay(s, tables.costs.data(), tables.delays.data(), ends.data());
}

TEST(Replay, OneForwardOneBackwardHasItsClosedForm) {
  // Even stages, no transfer time: every rank works m (F + B), and p - 1 times F + B pass before the first and after the last
  // microbatch has gone through the other stages: (m + p - 1)(F + B).
  for (int p = 1; p <= 9; ++p) {
    for (const int m : {p, p + 1, 4 * p}) {
      EXPECT_EQ(step_time(pack(make_schedule("1f1b", p, m)), even_tables(p, 3, 2, 4, 0)), (m + p - 1) * (3 + 2 + 4));
    }
  }
}

TEST(Replay, GpipeHasItsClosedFormAlsoWithTransfers) {
  // All forwards, then all backwards: (m + p - 1) F + (m + p - 1) B, and a transfer between each two stages, once each way.
  for (int p = 1; p <= 9; ++p) {
    for (const int m : {1, 5, 16}) {
      EXPECT_EQ(step_time(pack(make_schedule("gpipe", p, m)), even_tables(p, 5, 3, 4, 7)), (m + p - 1) * 12 + 2 * (p - 1) * 7);
    }
  }
}

TEST(Replay, ZbH1HasThePublishedBubble) {
  // Qi et al., Zero Bubble Pipeline Parallelism, table 1: bubble (p - 1)(F + I - W); with F = I = W that is p - 1 times F.
  for (const int p : {2, 4, 8}) {
    for (const int m : {2 * p, 4 * p}) {
      EXPECT_EQ(step_time(pack(make_schedule("zb-h1", p, m)), even_tables(p, 10, 10, 10, 0)), 30 * m + 10 * (p - 1));
    }
  }
}

TEST(Replay, AllKernelsEqualTheDefinitionOnRandomCosts) {
  std::mt19937 random(20240607);
  for (const char* family : {"gpipe", "1f1b", "interleaved-1f1b", "looped-bfs", "zb-h1"}) {
    for (const auto& [p, m] : {std::pair{1, 3}, {2, 4}, {4, 8}, {5, 10}}) {
      const PipelineOrder order = pack(make_schedule(family, p, m));
      Structure s;
      ASSERT_TRUE(StructureBuilder().build(order, s));
      const BatchProgram keep(s, BatchProgram::Values::KeepAll), recycle(s, BatchProgram::Values::Recycle);
      std::vector<Eight> costs(s.cost_entries), delays(s.delay_entries), values(keep.values()), few(recycle.values());
      std::vector<double> ends(s.tasks + 1);
      for (int round = 0; round < 25; ++round) {
        Eight expected;
        for (int k = 0; k < kBatch; ++k) {
          const Tables tables = random_tables(order.stages, random);
          for (std::size_t i = 0; i < costs.size(); ++i) costs[i].value[k] = tables.costs[i];
          for (std::size_t i = 0; i < delays.size(); ++i) delays[i].value[k] = tables.delays[i];
          expected.value[k] = replay(s, tables.costs.data(), tables.delays.data(), ends.data());
          if (round == 0) {
            const std::vector<double> naive = testing::naive_ends(testing::graph_of(order, tables));
            ASSERT_EQ(expected.value[k], *std::max_element(naive.begin(), naive.end())) << family << " p" << p << " m" << m;
          }
        }
        const Eight kept = keep.replay(costs.data(), delays.data(), values.data());
        const Eight recycled = recycle.replay(costs.data(), delays.data(), few.data());
        for (int k = 0; k < kBatch; ++k) {
          ASSERT_EQ(kept.value[k], expected.value[k]) << family << " p" << p << " m" << m;
          ASSERT_EQ(recycled.value[k], expected.value[k]) << family << " p" << p << " m" << m;
        }
      }
    }
  }
}

TEST(Replay, ValuesAreRecycledWhereTheyWouldNotStayInTheCache) {
  Structure small, large;
  ASSERT_TRUE(StructureBuilder().build(pack(make_schedule("1f1b", 4, 16)), small));
  ASSERT_TRUE(StructureBuilder().build(pack(make_schedule("1f1b", 16, 65536 / 2)), large));  // a million tasks, 64 MB of values
  EXPECT_FALSE(BatchProgram(small).recycles());
  EXPECT_EQ(BatchProgram(small).values(), small.tasks + 1);
  EXPECT_TRUE(BatchProgram(large).recycles());
  EXPECT_LT(BatchProgram(large).values(), 64u);
}

}  // namespace
}  // namespace panpipe
