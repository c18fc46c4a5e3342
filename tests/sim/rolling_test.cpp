// Steps without a flush in both engines: the same period where no link is shared, a longer one where flows share it.
#include <gtest/gtest.h>

#include "costmodel/estimate/estimate.hpp"
#include "sim/simulate.hpp"
#include "tests/costmodel/lowering/tables.hpp"
#include "tests/sim/graph_maker.hpp"

namespace panpipe::sim {
namespace {

Cluster line_of(int devices) {
  test::ClusterMaker cluster(devices);
  for (int d = 0; d + 1 < devices; ++d) {
    cluster.route(d, d + 1, {{cluster.resource("up" + std::to_string(d), gb_per_s(100)), 1}});
    cluster.route(d + 1, d, {{cluster.resource("down" + std::to_string(d), gb_per_s(100)), 1}});
  }
  return cluster.make();
}

TEST(RollingSteps, BothEnginesAgree) {
  for (const char* family : {"pipedream-2bw", "zb-h2", "1f1b"})
    for (const bool merge : {true, false}) {
      test::TableCosts costs = test::chain_of(4, 2e-3, 1e-3, 1e-3, 1000);
      costs.latency = micros(300);
      costs.optimizer_per_element = 1e-5;
      Scenario scenario = test::scenario_of(4, 6, family);
      if (std::string(family) != "pipedream-2bw") scenario.schedule.options["post_validation"] = "true";
      const TaskGraph graph = test::lowered(scenario, costs);
      const Metrics simulated = metrics(simulate(graph, line_of(4), {Backend::FlowSolver, merge, true}));
      const Metrics estimated = metrics(estimate(graph));
      EXPECT_GT(estimated.period_s, 0) << family;
      EXPECT_NEAR(simulated.period_s, estimated.period_s, 1e-9) << family;
      EXPECT_NEAR(simulated.first_step_s, estimated.first_step_s, 1e-9) << family;
      EXPECT_NEAR(simulated.contention_s, 0, 1e-9) << family;
      EXPECT_NEAR(simulated.bubble_step, estimated.bubble_step, 1e-6) << family;
    }
}

}  // namespace
}  // namespace panpipe::sim
