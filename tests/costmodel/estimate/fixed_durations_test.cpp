// Where every pass takes a number on idle links, a compiled order gives the estimate's times to the last tick; and which passes
// do.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.hpp"
#include "costmodel/estimate/compile.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "costmodel/estimate/replay.hpp"
#include "costmodel/lowering/pass_lanes.hpp"
#include "tests/costmodel/lowering/tables.hpp"

namespace panpipe {
namespace {

// Units of uneven cost with all-reduces, which full backwards hide; host and jitter make passes longer.
test::TableCosts costs_with_collectives(int units, int tensor) {
  test::TableCosts costs = test::chain_of(units, 1, 1, 1);
  costs.is_measured = false;
  costs.slowdown = 0.19;
  costs.latency = millis(0.7);
  costs.host_floor = 1.1e-3;
  costs.jitter = 1.03;
  CollectiveCost cost;
  cost.kind = CollectiveKind::AllReduce;
  cost.members = tensor;
  cost.time = millis(2.3);
  costs.table.collectives = {cost};
  for (int u = 0; u < units; ++u) {
    UnitCost& unit = costs.table.units[u];
    unit.forward = test::pass_of(1.1e-3 + 0.3e-3 * u);
    unit.input_gradient = test::pass_of(1.7e-3 + 0.2e-3 * u);
    unit.weight_gradient = test::pass_of(0.9e-3 + 0.1e-3 * u);
    for (PassCost* pass : {&unit.forward, &unit.input_gradient, &unit.weight_gradient}) pass->host.launches = u % 3;
    if (tensor == 1) continue;
    test::add_collective(unit.forward, cost.time);
    test::add_collective(unit.input_gradient, cost.time, true);
  }
  return costs;
}

void expect_equal_times(const TaskGraph& graph) {
  const CompiledGraph compiled = compile(graph);
  std::vector<double> ends(compiled.structure.tasks + 1);
  const double step = replay(compiled.structure, compiled.costs.data(), compiled.delays.data(), ends.data());
  const TaskTimes numbers = estimate_times(graph), steps = estimate_times(graph, true);
  Ticks last(0);
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    ASSERT_EQ(numbers.task_start[t], steps.task_start[t]) << "task " << t;
    ASSERT_EQ(numbers.task_end[t], steps.task_end[t]) << "task " << t;
    ASSERT_EQ(numbers.task_waiting[t], steps.task_waiting[t]) << "task " << t;
    if (graph.tasks[t].group_size == 1) {
      ASSERT_EQ(numbers.task_end[t].base(), ends[compiled.task_node[t]]) << "task " << t;
    }
    last = std::max(last, numbers.task_end[t]);
  }
  ASSERT_EQ(last.base(), step);
  ASSERT_EQ(numbers.transfer_start, steps.transfer_start);
}

TEST(FixedDurations, CompiledOrdersGiveTheTimesOfTheEstimate) {
  int fixed = 0, woven = 0, other = 0;
  for (const std::string family : {"gpipe", "1f1b", "interleaved-1f1b", "zb-h1", "zb-v", "stp", "dualpipe-v", "seq-1f1b"})
    for (const int tensor : {1, 2})
      for (const Braid braid : {Braid::Split, Braid::Atomic})
        for (const bool run_on : {false, true})
          for (const int rules : {0, 1, 2, 3, 4}) {
            const bool two = family == "interleaved-1f1b" || family == "zb-v" || family == "stp" || family == "dualpipe-v";
            const test::TableCosts costs = costs_with_collectives(8, tensor);
            Scenario scenario = test::scenario_of(2, 8, family, two ? 2 : 1, 2 * tensor);
            scenario.degrees.tensor = tensor;
            scenario.degrees.data = 2;
            scenario.overlap_gradients = rules == 1;
            scenario.gradient_bucket = Bytes(1000);
            scenario.schedule.braid = braid;
            scenario.collectives_run_on = run_on;
            if (rules == 2) scenario.transfers.braid_inputs = TransferRules::BraidInputs::Unit;
            if (rules == 3) scenario.transfers.full_backward_sends = TransferRules::FullBackwardSends::InputGradient;
            if (rules == 4) scenario.transfers.semantics = TransferSemantics::Blocking;
            SCOPED_TRACE(family + ", tensor " + std::to_string(tensor) + ", rules " + std::to_string(rules) +
                         (run_on ? ", run on" : "") + (braid == Braid::Atomic ? ", atomic" : ""));
            const TaskGraph graph = test::lowered(scenario, costs);
            if (!durations_are_fixed(graph)) {
              ++other;
              continue;
            }
            ++fixed;
            for (const Program& program : graph.programs) woven += program.members > 1 && !program.atomic ? 1 : 0;
            expect_equal_times(graph);
            if (HasFatalFailure()) return;
          }
  EXPECT_GT(fixed, 150);
  EXPECT_GT(woven, 50);
  EXPECT_GT(other, 100);
}

// Reasons why a pass is not a fixed number, one at a time.
TEST(FixedDurations, EndWhereSomethingInsideIsSeen) {
  const auto fixed = [](const std::string& family, int tensor, auto change) {
    const test::TableCosts costs = costs_with_collectives(8, tensor);
    Scenario scenario = test::scenario_of(2, 8, family, family == "stp" ? 2 : 1, tensor);
    scenario.degrees.tensor = tensor;
    scenario.degrees.data = 1;
    change(scenario);
    return durations_are_fixed(test::lowered(scenario, costs));
  };
  const auto nothing = [](Scenario&) {};
  EXPECT_TRUE(fixed("1f1b", 2, nothing));
  EXPECT_TRUE(fixed("stp", 2, nothing));
  const auto run_on = [](Scenario& scenario) { scenario.collectives_run_on = true; };
  EXPECT_TRUE(fixed("1f1b", 1, run_on));  // no collectives
  EXPECT_FALSE(fixed("1f1b", 2, run_on));
  const auto inputs = [](Scenario& scenario) { scenario.transfers.braid_inputs = TransferRules::BraidInputs::Unit; };
  EXPECT_TRUE(fixed("1f1b", 2, inputs));  // no groups
  EXPECT_FALSE(fixed("stp", 2, inputs));
  const auto early = [](Scenario& scenario) {
    scenario.transfers.full_backward_sends = TransferRules::FullBackwardSends::InputGradient;
  };
  EXPECT_TRUE(fixed("zb-h1", 2, early));  // no full backwards
  EXPECT_FALSE(fixed("1f1b", 2, early));
}

}  // namespace
}  // namespace panpipe
