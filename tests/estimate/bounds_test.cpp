#include "costmodel/estimate/bounds.hpp"

#include <gtest/gtest.h>

#include "costmodel/estimate/replay.hpp"
#include "tests/estimate/pipeline_graph.hpp"

namespace panpipe {
namespace {

using testing::random_tables;
using testing::Tables;

class Bounds : public ::testing::TestWithParam<std::tuple<const char*, int, int>> {};

TEST_P(Bounds, AreNeverAboveTheStepTime) {
  const auto [family, p, m] = GetParam();
  const PipelineOrder order = pack(make_schedule(family, p, m));
  Structure s;
  ASSERT_TRUE(StructureBuilder().build(order, s));
  const ClosedFormBound closed(order);
  std::vector<double> ends(s.tasks + 1), scratch(closed.scratch_size());
  PathPool pool(s);
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    const Tables tables = random_tables(order.stages, random);
    const double step = replay(s, tables.costs.data(), tables.delays.data(), ends.data());
    ASSERT_LE(closed(tables.costs.data(), tables.delays.data(), scratch.data()), step);
    ASSERT_LE(pool.bound(tables.costs.data(), tables.delays.data()), step);  // paths of other costs
    const CriticalPath path = critical_path(s, tables.delays.data(), ends.data());
    ASSERT_EQ(path_time(s, path, tables.costs.data(), tables.delays.data()), step);  // its own costs: exact
    const bool is_new = pool.insert(path);
    ASSERT_EQ(pool.bound(tables.costs.data(), tables.delays.data()), step);
    ASSERT_FALSE(pool.insert(path)) << is_new;
  }
  EXPECT_GE(pool.size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Families, Bounds,
                         ::testing::Values(std::tuple{"gpipe", 4, 8}, std::tuple{"1f1b", 1, 4}, std::tuple{"1f1b", 4, 4},
                                           std::tuple{"1f1b", 8, 24}, std::tuple{"interleaved-1f1b", 4, 8},
                                           std::tuple{"looped-bfs", 4, 8}, std::tuple{"zb-h1", 4, 8},
                                           std::tuple{"zb-h1", 8, 16}));

// Even stages and no transfer time: (m + p - 1)(F + B) is what the first rank's own work and its neighbours' forwards and
// backwards add up to, so the closed form is exact.
TEST(ClosedFormBound, IsExactForEven1f1b) {
  const PipelineOrder order = pack(make_schedule("1f1b", 8, 64));
  const ClosedFormBound closed(order);
  const Tables tables = testing::even_tables(8, 3, 2, 4, 0);
  std::vector<double> scratch(closed.scratch_size());
  EXPECT_EQ(closed(tables.costs.data(), tables.delays.data(), scratch.data()), (64 + 8 - 1) * 9);
}

}  // namespace
}  // namespace panpipe
