// Replicas in shard groups in both engines: equal times where no link is shared, the sharing where one is.
#include <gtest/gtest.h>

#include <string>

#include "costmodel/estimate/estimate.hpp"
#include "sim/simulate.hpp"
#include "tests/costmodel/lowering/tables.hpp"
#include "tests/sim/graph_maker.hpp"

namespace panpipe::sim {
namespace {

TEST(Shards, BothEnginesAgree) {
  for (const std::string family : {"1f1b", "interleaved-1f1b", "zb-h1"})
    for (const int zero : {1, 2, 3})
      for (const int shard : {1, 2, 4})
        for (const bool fold : {false, true}) {
          const test::TableCosts costs = test::flows_of(8, 12e-6, 25e-6);
          Scenario scenario = test::scenario_of(2, 6, family, 1, 8);
          scenario.degrees.data = 4;
          scenario.degrees.tensor = 2;
          if (family == "interleaved-1f1b") scenario.degrees.virtual_stages = 2;
          scenario.degrees.zero = zero;
          scenario.degrees.shard = shard;
          const TaskGraph graph = test::lowered(scenario, costs);
          std::size_t holders = 0;
          for (const CollectiveFlow& flow : graph.flows) holders += flow.among == Among::Holders ? 1 : 0;
          EXPECT_EQ(holders > 0, shard == 2) << family << ", ZeRO " << zero << ", groups of " << shard;
          const Timeline simulated = simulate(graph, test::paths_of_their_own(16), {Backend::FlowSolver, /* merge */ true, fold});
          EXPECT_NEAR(simulated.step_time.base(), estimate(graph).step_time.base(), 1e-9)
              << family << ", ZeRO " << zero << ", groups of " << shard << (fold ? ", folded" : "");
        }
}

// Two groups of two replicas, whose sums share one way: each of the two rings of holders (0, 2) and (1, 3) would fill it alone.
// Five blocks of 400 bytes: the scatters of 2000 bytes at 25 us take their time, the sums of 1000 bytes twice theirs.
TEST(Shards, SumsBetweenGroupsShareTheWayOut) {
  const test::TableCosts costs = test::flows_of(5, 12e-6, 25e-6);
  Scenario scenario = test::scenario_of(1, 1, "1f1b", 1, 4);
  scenario.degrees.zero = 1;
  scenario.degrees.shard = 2;
  const TaskGraph graph = test::lowered(scenario, costs);
  // A member of a sum sends its bytes in 25 us a byte: 1 / 25e-6 bytes a second.
  test::ClusterMaker cluster(4);
  const auto way = cluster.resource("way out", Bandwidth(1 / 25e-6));
  for (int from = 0; from < 4; ++from)
    for (int to = 0; to < 4; ++to)
      if (from != to && from / 2 != to / 2)
        cluster.route(from, to, {{way, 1}}, micros(0));
      else if (from != to)
        cluster.path_of_its_own(from, to);
  const double sum = 1000 * 25e-6;
  // Four members, 0 -> 2, 2 -> 0, 1 -> 3 and 3 -> 1, share what one would fill.
  EXPECT_NEAR(simulate(graph, cluster.make(), {Backend::FlowSolver, false, false}).step_time.base(),
              estimate(graph).step_time.base() + 3 * sum, 1e-9);
}

}  // namespace
}  // namespace panpipe::sim
