// Batched transfers in both engines: equal times where no link is shared.
#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "sim/simulate.hpp"
#include "tests/costmodel/lowering/tables.hpp"
#include "tests/sim/graph_maker.hpp"

namespace panpipe::sim {
namespace {

using BatchAfter = TransferRules::BatchAfter;

Cluster delays_only(int devices, Duration delay) {
  test::ClusterMaker cluster(devices);
  for (int from = 0; from < devices; ++from)
    for (int to = 0; to < devices; ++to)
      if (from != to) cluster.delay(from, to, delay);
  return cluster.make();
}

TEST(Batches, BothEnginesAgree) {
  for (const std::string family : {"1f1b", "interleaved-1f1b", "zb-v", "stp", "group-interleaved", "dualpipe-v"})
    for (const BatchAfter after : {BatchAfter::Cell, BatchAfter::Pair})
      for (const auto inputs : {TransferRules::BraidInputs::Together, TransferRules::BraidInputs::Unit}) {
        test::TableCosts costs = test::chain_of(16, 10e-3, 12e-3, 7e-3);
        costs.latency = Duration(3e-3);
        Scenario scenario = test::scenario_of(4, 12, family);
        if (family != "1f1b") scenario.degrees.virtual_stages = 2;
        scenario.transfers.semantics = TransferRules::Semantics::Batched;
        scenario.transfers.batch_after = after;
        scenario.transfers.braid_inputs = inputs;
        const TaskGraph graph = test::lowered(scenario, costs);
        Duration estimated(0);
        try {
          estimated = estimate(graph).step_time;
        } catch (const NoAnswer&) {
          EXPECT_EQ(after, BatchAfter::Pair) << family;
          continue;
        }
        const Timeline simulated = simulate(graph, delays_only(4, costs.latency), {Backend::FlowSolver});
        EXPECT_NEAR(simulated.step_time.base(), estimated.base(), 1e-12) << family;
      }
}

}  // namespace
}  // namespace panpipe::sim
