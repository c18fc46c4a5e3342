// Buckets of gradients during the backward in both engines: equal times where no link is shared, whether passes are one timer
// each or go step by step with tensor-parallel sums.
#include <gtest/gtest.h>

#include <string>

#include "costmodel/estimate/estimate.hpp"
#include "sim/simulate.hpp"
#include "tests/sim/flow_costs.hpp"
#include "tests/sim/graph_maker.hpp"

namespace panpipe::sim {
namespace {

TEST(Buckets, BothEnginesAgree) {
  for (const std::string family : {"1f1b", "interleaved-1f1b", "zb-h1", "zb-v", "stp", "dualpipe-v"})
    for (const int zero : {0, 1, 2})
      for (const int tensor : {1, 2})
        for (const bool run_on : {false, true})
          for (const bool hidden : {false, true}) {
            test::FlowCosts costs{5e-6, 5e-6};
            static_cast<test::TableCosts&>(costs) = test::chain_of(16, 10e-3, 12e-3, 7e-3);
            costs.is_measured = false;
            costs.slowdown = 0.2;
            costs.table.collectives.resize(1);
            costs.table.collectives[0].members = tensor;
            costs.table.collectives[0].bytes = costs.table.collectives[0].wire_bytes = Bytes(1000);
            costs.table.collectives[0].time = millis(4);
            if (tensor > 1)
              for (UnitCost& unit : costs.table.units) {
                test::add_collective(unit.forward, millis(4));
                test::add_collective(unit.input_gradient, millis(4), hidden);
              }
            Scenario scenario = test::scenario_of(2, 12, family, 1, 2 * tensor);
            scenario.degrees.data = 2;
            scenario.degrees.tensor = tensor;
            if (family == "interleaved-1f1b" || family == "zb-v" || family == "stp" || family == "dualpipe-v")
              scenario.degrees.virtual_stages = 2;
            scenario.degrees.zero = zero;
            scenario.overlap_gradients = true;
            scenario.gradient_bucket = Bytes(700);
            scenario.collectives_run_on = run_on;
            const TaskGraph graph = lower(scenario, make_plan(scenario, costs), costs);
            std::size_t inside = 0;
            for (const Input& input : graph.inputs) inside += input.point >= 0 ? 1 : 0;
            EXPECT_GT(inside, 0U) << family;
            const Duration estimated = estimate(graph).step_time;
            for (const bool merge : {true, false}) {
              const Timeline simulated =
                  simulate(graph, test::paths_of_their_own(4 * tensor), {Backend::FlowSolver, merge, /* fold */ true});
              EXPECT_NEAR(simulated.step_time.base(), estimated.base(), 1e-9)
                  << family << ", ZeRO " << zero << ", tensor " << tensor << (run_on ? ", collectives run on" : "")
                  << (merge ? ", merged" : "") << (hidden ? ", hidden" : "");
            }
          }
}

}  // namespace
}  // namespace panpipe::sim
