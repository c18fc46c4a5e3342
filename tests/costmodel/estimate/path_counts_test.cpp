#include "costmodel/estimate/path_counts.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "costmodel/estimate/replay.hpp"
#include "tests/costmodel/estimate/pipeline_graph.hpp"

namespace panpipe {
namespace {

using testing::random_tables;
using testing::Tables;

class PathCounts : public ::testing::TestWithParam<std::tuple<const char*, int, int>> {};

// The path's own costs give the step time exactly; any other costs of the structure give no more than theirs.
TEST_P(PathCounts, AreExactForTheirOwnCostsAndABoundForOthers) {
  const auto [family, p, m] = GetParam();
  const PipelineOrder order = pack(make_schedule(family, p, m));
  Structure s;
  ASSERT_TRUE(StructureBuilder().build(order, s));
  std::vector<double> ends(s.tasks + 1), other(s.tasks + 1);
  std::mt19937 random(7);
  Tables last = random_tables(order.stages, random);
  double last_step = replay(s, last.costs.data(), last.delays.data(), other.data());
  for (int round = 0; round < 500; ++round) {
    const Tables tables = random_tables(order.stages, random);
    const double step = replay(s, tables.costs.data(), tables.delays.data(), ends.data());
    const std::vector<double> counts = critical_path(s, tables.delays.data(), ends.data()).counts;
    const auto time = [&](const Tables& of) {
      const auto delays = counts.begin() + s.cost_entries;
      return std::inner_product(counts.begin(), delays, of.costs.begin(), 0.0) +
             std::inner_product(delays, counts.end(), of.delays.begin(), 0.0);
    };
    ASSERT_EQ(time(tables), step);
    ASSERT_LE(time(last), last_step);
    last = tables;
    last_step = step;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, PathCounts,
                         ::testing::Values(std::tuple{"gpipe", 4, 8}, std::tuple{"1f1b", 1, 4}, std::tuple{"1f1b", 4, 4},
                                           std::tuple{"1f1b", 8, 24}, std::tuple{"interleaved-1f1b", 4, 8},
                                           std::tuple{"looped-bfs", 4, 8}, std::tuple{"zb-h1", 4, 8},
                                           std::tuple{"zb-h1", 8, 16}));

}  // namespace
}  // namespace panpipe
