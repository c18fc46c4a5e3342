// Groups woven unit by unit, end to end through the lowering: units of 10 ms forward, 8 ms input gradient, 6 ms weight gradient,
// each forward and input gradient followed by an all-reduce.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "costmodel/lowering/pass_lanes.hpp"
#include "tests/costmodel/lowering/tables.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

using test::scenario_of;

constexpr double kMs = 1e9;  // picoseconds

test::TableCosts units_with_collectives(int count, Duration collective, double slowdown = 0, double f = 10e-3, double i = 8e-3,
                                        double w = 6e-3) {
  test::TableCosts costs = test::chain_of(count, f, i, w);
  CollectiveCost cost;
  cost.kind = CollectiveKind::AllReduce;
  cost.members = 2;
  cost.time = collective;
  costs.table.collectives = {cost};
  costs.slowdown = slowdown;
  for (UnitCost& unit : costs.table.units) {
    test::add_collective(unit.forward, collective);
    test::add_collective(unit.input_gradient, collective, true);
  }
  return costs;
}

// F0, then F1 with the backward of 0, then the backward of 1, on one rank.
Plan braid_on_one_rank(const Scenario& scenario, const test::TableCosts& costs, const std::string& group) {
  Plan plan = make_plan(scenario, costs);
  plan.schedule = read_schedule_csv("0F0," + group + "\r\n", "braid");
  return plan;
}

double step_of(const TaskGraph& graph) {
  Ticks last(0);
  for (const Ticks end : estimate_times(graph).task_end) last = std::max(last, end);
  return last.base() / kMs;
}

double braid_step(const test::TableCosts& costs, const std::string& group, Braid braid = Braid::Split) {
  Scenario scenario = scenario_of(1, 2, "gpipe");
  scenario.schedule.braid = braid;
  return step_of(lower(scenario, braid_on_one_rank(scenario, costs, group), costs));
}

// Work that overlaps a collective goes at rate 1 - loss: 6 ms of work that overlap 4 ms of collective lose 1 ms; with 20 ms (all
// along) they take 6 / 0.75.
TEST(PassLanes, ComputeLosesAShareOfTheTimeThatOverlapsCollectives) {
  EXPECT_DOUBLE_EQ(overlapped_time(6, 4, 0.25), 7);
  EXPECT_DOUBLE_EQ(overlapped_time(6, 20, 0.25), 8);
  EXPECT_DOUBLE_EQ(overlapped_time(6, 8, 0.25), 8);
  EXPECT_DOUBLE_EQ(overlapped_time(6, 0, 0.25), 6);
  EXPECT_DOUBLE_EQ(overlapped_time(6, -1, 0.25), 6);
}

// 0F0: 10 + 4 + 10 + 4 = 28. (0F1;0B0): f 0-10, its all-reduce to 14; i 10-18, to 22; w 18-24; f 24-34, to 38; i 34-42, to 46;
// w 42-48: the compute alone, 2 x 24. 0B1 alone hides its all-reduces behind w: 2 x 14. Atomic: 28 + 28 + 28 + 28.
TEST(Braids, CollectivesOfOnePassRunUnderComputeOfTheOther) {
  const auto costs = units_with_collectives(2, millis(4));
  EXPECT_NEAR(braid_step(costs, "(0F1;0B0)OVERLAP_F_B,0B1"), 28 + 48 + 28, 1e-6);
  EXPECT_NEAR(braid_step(costs, "(0F1;0B0)OVERLAP_F_B,0B1", Braid::Atomic), 4 * 28, 1e-6);
}

// All-reduces of 20: f 0-10, to 30; i 10-18, to 50; w 18-24; f waits for the first: 30-40, to 70; i for the second: 50-58, to 90;
// w 58-64. The last all-reduce ends at 90. Alone: F 60, B 2 x 28.
TEST(Braids, UnitsWaitForTheCollectiveOfTheirOwnPass) {
  EXPECT_NEAR(braid_step(units_with_collectives(2, millis(20)), "(0F1;0B0)OVERLAP_F_B,0B1"), 60 + 90 + 56, 1e-6);
}

// The host takes 5 ms a launch. 0F0 and 0B1 with 8 and 12 launches: 40 and 60 ms. The group would take 48 on the device and has
// 20 launches: 100 ms, and not what the lone passes compute with their all-reduces (32 + 52).
TEST(Braids, TakeAtLeastTheirLaunches) {
  auto costs = units_with_collectives(2, millis(4));
  costs.is_measured = false;
  costs.host_floor = 5e-3;
  const auto launch = [&](int forward, int input, int weight) {
    for (UnitCost& unit : costs.table.units) {
      unit.forward.host.launches = forward;
      unit.input_gradient.host.launches = input;
      unit.weight_gradient.host.launches = weight;
    }
  };
  launch(4, 5, 1);
  EXPECT_NEAR(braid_step(costs, "(0F1;0B0)OVERLAP_F_B,0B1"), 40 + 100 + 60, 1e-6);
  launch(1, 1, 1);  // 10 and 20 ms for passes of 28, 30 for a group of 48
  EXPECT_NEAR(braid_step(costs, "(0F1;0B0)OVERLAP_F_B,0B1"), 28 + 48 + 28, 1e-6);
  launch(2, 4, 0);  // 20 ms for an F of 28, 40 for a B of 28, 60 for a group of 48
  EXPECT_NEAR(braid_step(costs, "(0F1;0B0)OVERLAP_F_B,0B1"), 28 + 60 + 40, 1e-6);
  // Jitter of a tenth on everything: the all-reduces stay, the compute that overlaps them grows.
  costs.jitter = 1.1;
  EXPECT_NEAR(braid_step(costs, "(0F1;0B0)OVERLAP_F_B,0B1"), 1.1 * (28 + 60 + 40), 1e-6);
}

// Passes of 28 whose last 4 overlap the next pass: the host's 30 ms are up at the end of the compute.
TEST(Braids, TrailingCollectivesHideNoLaunches) {
  auto costs = units_with_collectives(2, millis(4));
  costs.is_measured = false;
  costs.host_floor = 5e-3;
  for (UnitCost& unit : costs.table.units) unit.forward.host.launches = 3;
  Scenario scenario = scenario_of(1, 2, "gpipe");
  scenario.collectives_run_on = true;
  Plan plan = make_plan(scenario, costs);
  plan.schedule = read_schedule_csv("0F0,0F1,0B0,0B1\r\n", "row");
  const TaskTimes times = estimate_times(lower(scenario, plan, costs));
  EXPECT_NEAR(times.task_end[0].base() / kMs, 30, 1e-6);
  EXPECT_NEAR(times.task_end[1].base() / kMs, 60, 1e-6);
}

// A quarter of the 4 ms that overlap compute is lost: i and w take 9 and 7, the second f still 10 (nothing is under way at 26).
// The braid ends at 10 + 9 + 7 + 10 + 9 + 7 = 52; B alone is 2 x (8 + 7).
TEST(Braids, OverlapSlowsComputePiecewise) {
  EXPECT_NEAR(braid_step(units_with_collectives(2, millis(4), 0.25), "(0F1;0B0)OVERLAP_F_B,0B1"), 28 + 52 + 30, 1e-6);
}

// (F;I): f 0-10, to 14; i 10-18, to 22; f 18-28 (its all-reduce ended at 14), to 32; i 28-36, to 40. Then 0W0 of 12 and 0B1.
TEST(Braids, ForwardAndInputGradient) {
  EXPECT_NEAR(braid_step(units_with_collectives(2, millis(4)), "(0F1;0I0)OVERLAP_F_B,0W0,0B1"), 28 + 40 + 12 + 28, 1e-6);
}

// Behind its all-reduce a unit's gradient goes on for 2 (a normalization's), which the next unit's 8 follow at once: f 0-10, to
// 14; i 10-18, to 22; f 18-28, to 32; 2 and i 28-38, to 42; the last 2 wait: 42-44. Alone F takes 28, B runs w during each
// all-reduce: 2 x (8 + 6 + 2), W 12.
TEST(Braids, WhatFollowsACollectiveGoesOnWithTheNextUnit) {
  auto costs = units_with_collectives(2, millis(4));
  for (UnitCost& unit : costs.table.units) {
    Piece tail;
    tail.time = millis(2);
    unit.input_gradient.pieces.push_back(tail);
    Piece weight = unit.weight_gradient.pieces.front();
    weight.weight = true;
    unit.backward = unit.input_gradient;
    unit.backward->pieces.insert(unit.backward->pieces.end() - 1, weight);
  }
  EXPECT_NEAR(braid_step(costs, "(0F1;0I0)OVERLAP_F_B,0W0,0B1"), 28 + 44 + 12 + 32, 1e-6);
  // f 0-10, to 14; i 10-18, to 22, w to 24; f 24-34, to 38; 2 and i 34-44, to 48, w to 50; 2 to 52.
  EXPECT_NEAR(braid_step(costs, "(0F1;0B0)OVERLAP_F_B,0B1"), 28 + 52 + 32, 1e-6);
}

// (F;W): f 0-10, to 14; w 10-16; f 16-26, to 30; w 26-32: 32 for 20 + 12 of compute. 0I0 before it alone is 24.
TEST(Braids, ForwardAndWeightGradient) {
  EXPECT_NEAR(braid_step(units_with_collectives(2, millis(4)), "0I0,(0F1;0W0)OVERLAP_F_W,0B1"), 28 + 24 + 32 + 28, 1e-6);
}

// (F;F): f 0-10, f' 10-20, f 20-30, f' 30-40, its all-reduce to 44.
TEST(Braids, TwoForwards) {
  const auto costs = units_with_collectives(2, millis(4));
  Scenario scenario = scenario_of(1, 2, "gpipe");
  Plan plan = make_plan(scenario, costs);
  plan.schedule = read_schedule_csv("(0F0;0F1)OVERLAP_F_F,0B0,0B1\r\n", "braid");
  EXPECT_NEAR(step_of(lower(scenario, plan, costs)), 44 + 56, 1e-6);
}

std::vector<ProgramStep> steps_of_braids(const TaskGraph& graph) {
  std::vector<ProgramStep> steps;
  for (const Task& task : graph.tasks) {
    if (task.group_size != 2) continue;
    const Program& program = graph.programs[task.program];
    const auto first = graph.steps.begin() + program.first_step;
    steps.insert(steps.end(), first, first + program.steps);
  }
  return steps;
}

// A stage of three layers against one of a single layer: the one that has done the smaller share goes next, the first at a tie.
TEST(Braids, StrandsOfUnequalLengthAreSpread) {
  const auto costs = units_with_collectives(4, millis(4));
  const Scenario scenario = scenario_of(1, 2, "looped-bfs", 2);
  Plan plan = make_plan(scenario, costs);
  plan.schedule = read_schedule_csv("0F0,1F0,(0F1;1B0)OVERLAP_F_B,0B0,1F1,1B1,0B1\r\n", "braid");
  plan.stages = {{0, 3, Recompute::None}, {3, 4, Recompute::None}};
  const TaskGraph graph = lower(scenario, plan, costs);
  std::string order;
  for (const ProgramStep& step : steps_of_braids(graph))
    order += step.collective ? '=' : step.member == 0 ? 'f' : step.free ? 'w' : 'i';
  EXPECT_EQ(order, "f=i=wf=f=");
}

// The head's gradient leads and its forward trails; the layers are woven between them.
TEST(Braids, TheHeadStandsOutsideTheWeave) {
  auto costs = units_with_collectives(3, millis(4));
  costs.table.units[2] = test::unit_of(2, 1e-3, 1e-3, 1e-3);
  costs.table.units[2].block.clear();
  Scenario scenario = scenario_of(1, 2, "gpipe");
  const TaskGraph graph = lower(scenario, braid_on_one_rank(scenario, costs, "(0F1;0B0)OVERLAP_F_B,0B1"), costs);
  std::string order;
  for (const ProgramStep& step : steps_of_braids(graph))
    if (!step.collective)
      order += (step.member == 0 ? 'f' : step.free ? 'w' : 'i') + std::to_string(int(step.time.base() / kMs)) + ' ';
  EXPECT_EQ(order, "i1 w1 f10 i8 w6 f10 i8 w6 f1 ");
}

// Two ranks; only the lane and the transfer's time are looked at. F on rank 1 starts `latency` after its input left.
class TwoRanks {
 public:
  explicit TwoRanks(Duration latency) : costs_(test::chain_of(2, 10e-3, 10e-3, 10e-3)), scenario_(scenario_of(2, 2, "gpipe")) {
    costs_.latency = latency;
    scenario_.transfers.semantics = TransferRules::Semantics::Asynchronous;
  }
  TransferRules& rules() { return scenario_.transfers; }
  TaskGraph graph(const std::string& rows) const {
    Plan plan = make_plan(scenario_, costs_);
    plan.schedule = read_schedule_csv(rows, "two");
    return lower(scenario_, plan, costs_);
  }
  // Start of a pass in milliseconds.
  double start(const std::string& rows, const std::string& action) const {
    const TaskGraph lowered = graph(rows);
    const TaskTimes times = estimate_times(lowered);
    for (std::size_t t = 0; t < lowered.tasks.size(); ++t)
      if (lowered.tasks[t].kind == TaskKind::Pass && to_text(lowered.tasks[t].action) == action)
        return times.task_start[t].base() / kMs;
    ADD_FAILURE() << "no " << action;
    return 0;
  }

 private:
  test::TableCosts costs_;
  Scenario scenario_;
};

constexpr const char* kGpipe = "0F0,0F1,0B0,0B1\r\n1F0,1F1,1B0,1B1\r\n";

// Sends of 3 ms. 0F1 starts at 10, or at 13 when rank 0 waits for its send; 1F1 at 13 + 10 either way, or a send later when its
// lane is free earlier: 0F1 ends at 23, its send arrives at 26.
TEST(Transfers, SemanticsDecideWhoIsHeld) {
  TwoRanks two(millis(3));
  EXPECT_NEAR(two.start(kGpipe, "0F1"), 10, 1e-6);
  EXPECT_NEAR(two.start(kGpipe, "1F1"), 23, 1e-6);
  two.rules().semantics = TransferRules::Semantics::Blocking;
  EXPECT_NEAR(two.start(kGpipe, "0F1"), 13, 1e-6);
  EXPECT_NEAR(two.start(kGpipe, "1F1"), 26, 1e-6);
}

// Batched: a transfer starts when its receiver has arrived. 0F1 ends at 23, rank 1 has ended 1F0 at 23, so 1F1 starts at 26 and
// 0B0, which needs the sends of 0F1 through and 1B0 (36-56, arrives 59), at 59. The gradient of 1 leaves at 59 + 20 = 79, when
// 0B0 ends as well.
TEST(Transfers, BatchedTransfersMeet) {
  TwoRanks two(millis(3));
  two.rules().semantics = TransferRules::Semantics::Batched;
  EXPECT_NEAR(two.start(kGpipe, "0F1"), 13, 1e-6);
  EXPECT_NEAR(two.start(kGpipe, "1F1"), 26, 1e-6);
  EXPECT_NEAR(two.start(kGpipe, "0B0"), 59, 1e-6);
  EXPECT_NEAR(two.start(kGpipe, "0B1"), 82, 1e-6);
}

// Rank 1 takes 1 before 0. Rank 0 hands over 0 first: where both must meet, neither goes on.
TEST(Transfers, ADeadlockUnderOneSemanticsOnlyIsExplained) {
  const std::string rows = "0F0,0F1,0B1,0B0\r\n1F1,1F0,1B1,1B0\r\n";
  TwoRanks two(millis(3));
  for (const auto semantics : {TransferRules::Semantics::Asynchronous, TransferRules::Semantics::Blocking}) {
    two.rules().semantics = semantics;
    EXPECT_NO_THROW(estimate_times(two.graph(rows)));
  }
  two.rules().semantics = TransferRules::Semantics::Batched;
  EXPECT_NO_THROW(estimate_times(two.graph(rows)));  // the receive of 0 is posted before 1F1
  two.rules().batch_receives = TransferRules::BatchReceives::Late;
  EXPECT_EQ(test::fault_of<NoAnswer>([&] { estimate_times(two.graph(rows)); }),
            "the schedule cannot finish:\n"
            "  rank 0 is blocked at 0F1, which needs its place in the order\n"
            "  rank 1 is blocked at 1F1, which needs 0F1 of rank 0\n"
            "  the cycle:\n"
            "    0F1 on rank 0 waits for a send that is taken only after 1F1 on rank 1\n"
            "    1F1 on rank 1 needs 0F1 on rank 0");
}

// The gradient of 1B0 leaves after its input gradient (10) instead of the whole backward (20).
TEST(Transfers, FullBackwardsMaySendTheirGradientEarly) {
  TwoRanks two(millis(3));
  EXPECT_NEAR(two.start(kGpipe, "0B0"), 33 + 20 + 3, 1e-6);
  two.rules().full_backward_sends = TransferRules::FullBackwardSends::InputGradient;
  EXPECT_NEAR(two.start(kGpipe, "0B0"), 33 + 10 + 3, 1e-6);
}

// (1F1;1B0) on rank 1 at 23: f 23-33, then i and w to 53. Outputs at the end: 0B0 starts at 53 + 3. At unit time the backward's
// own end is the same; with the gradient early, 43 + 3.
TEST(Transfers, BraidsDeliverAtTheirEndOrUnitByUnit) {
  const std::string rows = "0F0,0F1,0B0,0B1\r\n1F0,(1F1;1B0)OVERLAP_F_B,1B1\r\n";
  TwoRanks two(millis(3));
  EXPECT_NEAR(two.start(rows, "0B0"), 56, 1e-6);
  two.rules().braid_outputs = TransferRules::BraidOutputs::Unit;
  EXPECT_NEAR(two.start(rows, "0B0"), 56, 1e-6);
  two.rules().full_backward_sends = TransferRules::FullBackwardSends::InputGradient;
  EXPECT_NEAR(two.start(rows, "0B0"), 46, 1e-6);
}

}  // namespace
}  // namespace panpipe
