// Passes in parts in both engines: equal times where no link is shared. Gradients go in buckets during the backward, parameters
// come block by block; passes are one timer each or go step by step with tensor-parallel sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "costmodel/estimate/estimate.hpp"
#include "sim/simulate.hpp"
#include "tests/costmodel/lowering/tables.hpp"
#include "tests/sim/graph_maker.hpp"

namespace panpipe::sim {
namespace {

struct Passes {
  std::string family;
  int microbatches, zero, tensor;
  bool run_on, hidden;  // collectives

  std::string text() const {
    return family + ", ZeRO " + std::to_string(zero) + ", tensor " + std::to_string(tensor) +
           (run_on ? ", collectives run on" : "") + (hidden ? ", hidden" : "");
  }
};

// Sixteen units on two ranks with two replicas each; sums of 4 ms over the tensor group behind F and I.
TaskGraph graph_of(const Passes& passes, test::TableCosts costs, const std::function<void(Scenario&)>& set) {
  costs.slowdown = 0.2;
  CollectiveCost& sum = costs.table.collectives.emplace_back();
  sum.members = passes.tensor;
  sum.bytes = sum.wire_bytes = Bytes(1000);
  sum.time = millis(4);
  if (passes.tensor > 1)
    for (UnitCost& unit : costs.table.units) {
      test::add_collective(unit.forward, millis(4));
      test::add_collective(unit.input_gradient, millis(4), passes.hidden);
    }
  Scenario scenario = test::scenario_of(2, passes.microbatches, passes.family, 1, 2 * passes.tensor);
  scenario.degrees.data = 2;
  scenario.degrees.tensor = passes.tensor;
  if (passes.family != "gpipe" && passes.family != "1f1b" && passes.family != "zb-h1") scenario.degrees.virtual_stages = 2;
  scenario.degrees.zero = passes.zero;
  scenario.collectives_run_on = passes.run_on;
  set(scenario);
  return test::lowered(scenario, costs);
}

void expect_engines_agree(const TaskGraph& graph, int devices) {
  const Duration estimated = estimate(graph).step_time;
  for (const bool merge : {true, false}) {
    const Timeline simulated = simulate(graph, test::paths_of_their_own(devices), {Backend::FlowSolver, merge, /* fold */ true});
    EXPECT_NEAR(simulated.step_time.base(), estimated.base(), 1e-9) << (merge ? "merged" : "");
  }
}

TEST(Buckets, BothEnginesAgree) {
  for (const std::string family : {"1f1b", "interleaved-1f1b", "zb-h1", "zb-v", "stp", "dualpipe-v"})
    for (const int zero : {0, 1, 2})
      for (const int tensor : {1, 2})
        for (const bool run_on : {false, true})
          for (const bool hidden : {false, true}) {
            const Passes passes{family, 12, zero, tensor, run_on, hidden};
            SCOPED_TRACE(passes.text());
            const TaskGraph graph = graph_of(passes, test::flows_of(16, 5e-6, 5e-6), [](Scenario& scenario) {
              scenario.overlap_gradients = true;
              scenario.gradient_bucket = Bytes(700);
            });
            EXPECT_TRUE(
                std::any_of(graph.inputs.begin(), graph.inputs.end(), [](const Input& input) { return input.point >= 0; }));
            expect_engines_agree(graph, 4 * tensor);
          }
}

// Of the families the last two have groups, whose stages are gathered as a whole.
TEST(Gathers, BothEnginesAgree) {
  for (const std::string family : {"gpipe", "1f1b", "interleaved-1f1b", "zb-h1", "stp", "dualpipe-v"})
    for (const int zero : {1, 3})
      for (const int tensor : {1, 2})
        for (const bool run_on : {false, true})
          for (const int in_flight : {1, 2, 4}) {
            const Passes passes{family, 8, zero, tensor, run_on, /* hidden */ true};
            SCOPED_TRACE(passes.text() + ", in flight " + std::to_string(in_flight));
            const TaskGraph graph = graph_of(passes, test::flows_of(16, 12e-6, 25e-6), [&](Scenario& scenario) {
              scenario.framework.overlap_parameter_gather = true;
              scenario.framework.gathers_in_flight = in_flight;
            });
            EXPECT_TRUE(std::any_of(graph.tasks.begin(), graph.tasks.end(), [](const Task& task) { return task.part > 0; }));
            expect_engines_agree(graph, 4 * tensor);
          }
}

}  // namespace
}  // namespace panpipe::sim
