// Products in chunks that overlap collectives in chunks, in both engines: equal times where no link is shared.
#include <gtest/gtest.h>

#include <string>

#include "costmodel/estimate/estimate.hpp"
#include "sim/simulate.hpp"
#include "tests/costmodel/lowering/chunked.hpp"
#include "tests/sim/graph_maker.hpp"

namespace panpipe::sim {
namespace {

TEST(Chunks, BothEnginesAgree) {
  for (const auto kind : {test::Chunked::Gather, test::Chunked::Scatter})
    for (const int n : {2, 5})
      for (const double collective : {1e-3, 6e-3, 20e-3})
        for (const double slowdown : {0.0, 0.2})
          for (const bool merge : {true, false}) {
            test::TableCosts costs = test::chunked(kind, n, 6e-3, collective);
            costs.slowdown = slowdown;
            Scenario scenario = test::scenario_of(1, 3, "1f1b", 1, 2);
            scenario.degrees.data = 1;
            scenario.degrees.tensor = 2;
            const TaskGraph graph = test::lowered(scenario, costs);
            test::ClusterMaker cluster(2);
            cluster.route(0, 1, {{cluster.resource("0-1", gb_per_s(100)), 1}});
            cluster.route(1, 0, {{cluster.resource("1-0", gb_per_s(100)), 1}});
            EXPECT_NEAR(simulate(graph, cluster.make(), {Backend::FlowSolver, merge, true}).step_time.base(),
                        estimate(graph).step_time.base(), 1e-9)
                << n << " chunks, " << collective << (merge ? ", merged" : "") << ", slowdown " << slowdown;
          }
}

}  // namespace
}  // namespace panpipe::sim
