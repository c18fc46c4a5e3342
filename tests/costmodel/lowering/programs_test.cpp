#include <gtest/gtest.h>

#include "costmodel/lowering/pass_lanes.hpp"
#include "tests/costmodel/lowering/action_replay.hpp"
#include "tests/costmodel/lowering/tables.hpp"

namespace panpipe {
namespace {

using test::scenario_of;

constexpr double kMs = 1e9;  // picoseconds

// One tensor-parallel collective of 4 ms.
CollectiveCost four_ms() {
  CollectiveCost cost;
  cost.kind = CollectiveKind::AllReduce;
  cost.members = 2;
  cost.latency = millis(1);
  cost.time = millis(4);
  return cost;
}

// F: 10 ms, all-reduce. I: 8 ms, all-reduce that a full backward hides. W: `weight`.
test::TableCosts tensor_parallel_units(int count, double weight) {
  test::TableCosts costs = test::chain_of(count, 10e-3, 8e-3, weight);
  costs.is_measured = false;
  costs.table.collectives = {four_ms()};
  for (UnitCost& unit : costs.table.units) {
    test::add_collective(unit.forward, millis(4));
    test::add_collective(unit.input_gradient, millis(4), true);
    unit.forward.host.launches = unit.input_gradient.host.launches = unit.weight_gradient.host.launches = 1;
  }
  return costs;
}

const Program& program_of(const TaskGraph& graph, const std::string& action) {
  return graph.programs[graph.tasks[test::find_task(graph, action)].program];
}

TaskGraph lower_on_one_rank(const test::TableCosts& costs, const std::string& schedule) {
  const Scenario scenario = scenario_of(1, 1, schedule);
  return test::lowered(scenario, costs);
}

TEST(Programs, ForwardsWaitForTheirCollectives) {
  const TaskGraph graph = lower_on_one_rank(tensor_parallel_units(2, 6e-3), "gpipe");
  const Program& forward = program_of(graph, "0F0");
  EXPECT_EQ(forward.steps, 4);  // 10, all-reduce, 10, all-reduce
  EXPECT_EQ(forward.duration.base(), 28 * kMs);
  EXPECT_EQ(forward.exposed_communication.base(), 8 * kMs);
  EXPECT_EQ(forward.breakdown.communication, millis(8));
  EXPECT_NEAR(forward.breakdown.compute.base(), 20e-3, 1e-15);
}

// In a full backward W of 6 ms hides the 4 ms; W of 3 ms leaves 1 ms of each in the open.
TEST(Programs, AFullBackwardHidesCollectivesBehindWeightGradients) {
  EXPECT_EQ(program_of(lower_on_one_rank(tensor_parallel_units(2, 6e-3), "gpipe"), "0B0").duration.base(), 2 * 14 * kMs);
  const TaskGraph graph = lower_on_one_rank(tensor_parallel_units(2, 3e-3), "gpipe");
  EXPECT_EQ(program_of(graph, "0B0").duration.base(), 2 * 12 * kMs);
  EXPECT_EQ(program_of(graph, "0B0").exposed_communication.base(), 2 * kMs);
}

TEST(Programs, InputGradientsAloneHideNothing) {
  const TaskGraph graph = lower_on_one_rank(tensor_parallel_units(2, 6e-3), "zb-h1");
  EXPECT_EQ(program_of(graph, "0I0").duration.base(), 2 * 12 * kMs);
  EXPECT_EQ(program_of(graph, "0W0").duration.base(), 12 * kMs);
}

// 19 % of 4 ms comes back on the 6 ms that hide it: 8 + 6.76 a unit.
TEST(Programs, HiddenCollectivesSlowComputeDown) {
  test::TableCosts costs = tensor_parallel_units(1, 6e-3);
  costs.slowdown = 0.19;
  EXPECT_NEAR(program_of(lower_on_one_rank(costs, "gpipe"), "0B0").duration.base(), 14.76 * kMs, 1);
}

// The host needs 20 ms a launch. F: 14 ms become 20. B: 14 ms become 40, also where a collective is hidden.
TEST(Programs, HostBoundPassesTakeTheHostsTime) {
  test::TableCosts costs = tensor_parallel_units(1, 6e-3);
  costs.host_floor = 20e-3;
  const TaskGraph fused = lower_on_one_rank(costs, "gpipe");
  EXPECT_NEAR(program_of(fused, "0F0").duration.base(), 20 * kMs, 1);
  EXPECT_NEAR(program_of(fused, "0F0").breakdown.launch.base(), 6e-3, 1e-12);
  EXPECT_NEAR(program_of(fused, "0B0").duration.base(), 40 * kMs, 1);
}

// I and W apart: I launches 14 operators of 1 ms, W one, so that I (12 ms) takes 14 ms and W its 6 ms: not 18 ms : 15 launches
// shared as 12 : 6. With 2 ms a launch 28 and 6 ms.
TEST(Programs, HalvesOfABackwardTakeTheTimeOfTheirOwnLaunches) {
  test::TableCosts costs = tensor_parallel_units(1, 6e-3);
  costs.table.units[0].input_gradient.host.launches = 14;
  for (const double launch : {1e-3, 2e-3}) {
    costs.host_floor = launch;
    const TaskGraph split = lower_on_one_rank(costs, "zb-h1");
    EXPECT_NEAR(program_of(split, "0I0").duration.base(), 14e3 * launch * kMs, 1) << launch;
    EXPECT_NEAR(program_of(split, "0I0").breakdown.launch.base(), 14 * launch - 12e-3, 1e-12);
    EXPECT_NEAR(program_of(split, "0W0").duration.base(), 6 * kMs, 1) << launch;
    EXPECT_NEAR(program_of(split, "0W0").breakdown.launch.base(), 0, 1e-12);
  }
}

// Work after host and device wait for each other is added after the norm: max(14, 20) + 5.
TEST(Programs, SynchronousPartsAreAddedAfterTheNorm) {
  test::TableCosts costs = tensor_parallel_units(1, 6e-3);
  costs.host_floor = 20e-3;
  UnitCost loss = test::unit_of(1, 5e-3, 1e-3, 1e-3);
  loss.forward.synchronises = true;
  costs.table.units.push_back(loss);
  EXPECT_NEAR(program_of(lower_on_one_rank(costs, "gpipe"), "0F0").duration.base(), 25 * kMs, 1);
}

// The head alone: all of it lies behind the meeting, and its launches before it. F: 20 + 5; B: two launches, 40 + 2. Units next
// to it, even of almost nothing, change it as little as they take.
TEST(Programs, LaunchesOfAStageWithOnlySynchronousWorkCount) {
  for (const double beside : {0.0, 1e-18, 1e-6}) {
    test::TableCosts costs = test::chain_of(1, 5e-3, 1e-3, 1e-3);
    costs.is_measured = false;
    costs.host_floor = 20e-3;
    UnitCost& head = costs.table.units[0];
    for (PassCost UnitCost::*pass : {&UnitCost::forward, &UnitCost::input_gradient, &UnitCost::weight_gradient})
      (head.*pass).synchronises = true, (head.*pass).host.launches = 1;
    if (beside > 0) costs.table.units.insert(costs.table.units.begin(), test::unit_of(1, beside, beside, beside));
    const TaskGraph graph = lower_on_one_rank(costs, "gpipe");
    EXPECT_NEAR(program_of(graph, "0F0").duration.base(), 25 * kMs, 1) << beside;
    EXPECT_NEAR(program_of(graph, "0B0").duration.base(), 42 * kMs, 1) << beside;
    EXPECT_NEAR(program_of(graph, "0F0").breakdown.launch.base(), 20e-3, 2e-6) << beside;
  }
}

// F of 10 ms and an all-reduce of 4 whose launches take the host 20: awaited, the pass ends at 20, its compute at 16. Where the
// all-reduce runs on, it ends at 20 too, and the lane is free when the host is, at 20. Where the device is the limit the lane is
// free at 10, and with a jitter of 1.1 at 11, before the awaited end of 15.4.
TEST(Programs, CollectivesThatRunOnDelayNothingWhereTheHostIsTheLimit) {
  const auto run = [](double host, double loss, double jitter, bool run_on) {
    test::TableCosts costs = tensor_parallel_units(1, 6e-3);
    costs.host_floor = host;
    costs.slowdown = loss;
    costs.jitter = jitter;
    Scenario scenario = scenario_of(1, 1, "gpipe");
    scenario.collectives_run_on = run_on;
    const TaskGraph graph = test::lowered(scenario, costs);
    const Program& program = program_of(graph, "0F0");
    PassLanes lanes;
    MemberRun member;
    run_cell(graph, program, lanes, &member);
    return std::pair(program.duration.base() / kMs, lanes.compute / kMs);
  };
  const auto expect = [](std::pair<double, double> got, double end, double lane) {
    EXPECT_NEAR(got.first, end, 1e-8);
    EXPECT_NEAR(got.second, lane, 1e-8);
  };
  for (const double loss : {0.0, 0.25}) {
    expect(run(20e-3, loss, 1, false), 20, 20);
    expect(run(20e-3, loss, 1, true), 20, 20);
    expect(run(12e-3, loss, 1, true), 14, 12);  // awaited the device is the limit: compute as it is
    expect(run(1e-3, loss, 1, true), 14, 10);
  }
  expect(run(1e-3, 0, 1.1, false), 15.4, 15.4);
  expect(run(1e-3, 0, 1.1, true), 15, 11);
}

TEST(Programs, JitterStretchesWholePasses) {
  test::TableCosts costs = tensor_parallel_units(1, 6e-3);
  costs.jitter = 1.1;
  const TaskGraph graph = lower_on_one_rank(costs, "gpipe");
  EXPECT_NEAR(program_of(graph, "0F0").duration.base(), 1.1 * 14 * kMs, 1);
  EXPECT_NEAR(program_of(graph, "0F0").exposed_communication.base(), 4 * kMs, 1);
}

// Without collectives the steps of a pass are one, and add up to the units' costs to the picosecond.
TEST(Programs, StepsAddUpToTheUnitsCosts) {
  for (const int units : {1, 2, 7, 30}) {
    const TaskGraph graph = lower_on_one_rank(test::chain_of(units, 1.1e-3, 1.7e-3, 0.9e-3), "zb-h1");
    for (const auto& [action, each] : {std::pair{"0F0", 1.1}, {"0I0", 1.7}, {"0W0", 0.9}}) {
      EXPECT_EQ(program_of(graph, action).steps, 1);
      EXPECT_NEAR(program_of(graph, action).duration.base(), units * each * kMs, 1);
    }
  }
}

// Full recompute runs the block's forward, collectives included, in front of its gradients.
TEST(Programs, RecomputeStandsInFrontOfTheInputGradient) {
  test::TableCosts costs = tensor_parallel_units(1, 6e-3);
  costs.table.units[0].recompute_full = costs.table.units[0].forward;
  Scenario scenario = scenario_of(1, 1, "gpipe");
  scenario.recompute = Recompute::Full;
  const TaskGraph graph = test::lowered(scenario, costs);
  EXPECT_EQ(program_of(graph, "0B0").duration.base(), (14 + 14) * kMs);
}

}  // namespace
}  // namespace panpipe
