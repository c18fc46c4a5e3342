// Recompute and offload of a scenario's schedule, from the scenario to times and memory.
#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "costmodel/lowering/task_graph.hpp"
#include "tests/costmodel/lowering/tables.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

using test::chain_of;
using test::scenario_of;

// One device, F = I = W = 1 s, 100 bytes saved a microbatch, 100 bytes a second to the host: copies take 1 s.
Timeline timeline_of(const std::string& key, const std::string& value, double copy_bandwidth = 100) {
  Scenario scenario = scenario_of(1, 4, "gpipe");
  if (!key.empty()) scenario.schedule.options[key] = value;
  scenario.cluster.types[0].copy_bandwidth = Bandwidth(copy_bandwidth);
  const test::TableCosts costs = chain_of(1, 1, 1, 1, 100);
  return estimate(test::lowered(scenario, costs));
}

double peak(const Timeline& timeline) { return static_cast<double>(timeline.devices.at(0).peak.base()); }

// Forwards end at 1 2 3 4, backwards start at 4 6 8 10. `selective` parks the three that live longest, hidden by compute: three
// of four are held at once. `full` parks the first too, whose way back keeps the first backward waiting for a second; two are
// held.
TEST(Offload, OfAScenarioTakesTimeOnTheCopyLaneAndFreesMemory) {
  const Timeline plain = timeline_of("", ""), selective = timeline_of("offload", "selective"),
                 full = timeline_of("offload", "full");
  EXPECT_DOUBLE_EQ(plain.step_time.base(), 12);
  EXPECT_DOUBLE_EQ(selective.step_time.base(), 12);
  EXPECT_DOUBLE_EQ(full.step_time.base(), 13);
  EXPECT_EQ(peak(plain) - peak(selective), 100);
  EXPECT_EQ(peak(plain) - peak(full), 200);
  int copies = 0;
  for (const Span& span : selective.spans)
    if (span.lane == Lane::Copy) {
      ++copies;
      EXPECT_DOUBLE_EQ((span.end - span.start).base(), 1);
    }
  EXPECT_EQ(copies, 6);
}

TEST(Offload, AtHalfTheBandwidthFewerAreWorthIt) {
  // Copies of 2 s: the round trip of 4 s leaves out the first (lives 3 s). The longest-lived goes away 4-6 and comes back 8-10.
  // The next (3 to 8) finds no 2 s before 6, the one before it (2 to 6) could go 2-4 and has no way back by 6.
  const Timeline timeline = timeline_of("offload", "selective", 50);
  EXPECT_DOUBLE_EQ(timeline.step_time.base(), 12);
  int copies = 0;
  for (const Span& span : timeline.spans) copies += span.lane == Lane::Copy;
  EXPECT_EQ(copies, 2);
}

TEST(Offload, NeedsABandwidth) {
  EXPECT_EQ(test::fault_of([&] { timeline_of("offload", "full", 0); }),
            "error: device 'given' has no copy_bandwidth, which 0OFFLOAD0 needs");
}

// Recompute in front of every backward is an action of its own: 4 more spans on the compute lane.
TEST(Recompute, OfASchedule) {
  const Timeline timeline = timeline_of("recompute", "full");
  int again = 0;
  for (const Span& span : timeline.spans) again += span.action.kind == ActionKind::R;
  EXPECT_EQ(again, 4);
}

// 40 of 100 bytes wait for W: their copies take 0.4 s. 0F0 0-1, 0I0 1-2, away 2-2.4; 0F1 2-3, 0I1 3-4, back 4-4.4, while 0W0
// waits: 4.4-5.4, 0W1 to 6.4.
TEST(Offload, OfWhatWaitsForTheWeightGradient) {
  Scenario scenario = scenario_of(1, 2, "gpipe");
  scenario.cluster.types[0].copy_bandwidth = Bandwidth(100);
  test::TableCosts costs = chain_of(1, 1, 1, 1, 100);
  costs.table.units[0].kept_for_weight = Bytes(40);
  Plan plan = make_plan(scenario, costs);
  plan.schedule = read_schedule_csv("0F0,0I0,0OFFLOAD0,0F1,0I1,0RELOAD0,0W0,0W1\r\n", "parked");
  const TaskGraph graph = lower(scenario, plan, costs);
  const Timeline timeline = estimate(graph);
  EXPECT_DOUBLE_EQ(timeline.step_time.base(), 6.4);
  int copies = 0;
  for (const Span& span : timeline.spans) {
    if (span.lane != Lane::Copy) continue;
    ++copies;
    EXPECT_NEAR((span.end - span.start).base(), 0.4, 1e-12);
  }
  EXPECT_EQ(copies, 2);
  Bytes taken(0), given(0);
  for (const Task& task : graph.tasks) {
    taken += task.take;
    given += task.give;
  }
  EXPECT_EQ(taken, Bytes(240));  // two activations, and what comes back
  EXPECT_EQ(given, taken);
}

// Recomputed stages keep 10 of 100 bytes, which travel in 0.1 s and are back before R.
TEST(Offload, OfTheInputsOfRecomputedStages) {
  const auto run = [](bool offload) {
    Scenario scenario = scenario_of(1, 4, "gpipe");
    scenario.schedule.options = {{"recompute", "full"}};
    if (offload) scenario.schedule.options["offload"] = "full";
    scenario.cluster.types[0].copy_bandwidth = Bandwidth(100);
    test::TableCosts costs = chain_of(1, 1, 1, 1, 100);
    costs.table.units[0].saved_full = Bytes(10);
    return estimate(test::lowered(scenario, costs));
  };
  const Timeline kept = run(false), parked = run(true);
  int copies = 0;
  for (const Span& span : parked.spans) {
    if (span.lane != Lane::Copy) continue;
    ++copies;
    EXPECT_NEAR((span.end - span.start).base(), 0.1, 1e-12);
  }
  EXPECT_EQ(copies, 8);
  EXPECT_LT(peak(parked), peak(kept));
}

// Two cards, whose links to the host carry 100 and 50 bytes a second. 400 bytes of a forward of 1 s leave in 4 and in 8 s; the
// update waits for the states of 100 elements, twice as long on the slower link.
TEST(Offload, StreamsRunAtTheRateOfTheirOwnDevice) {
  Scenario scenario = scenario_of(2, 1, "1f1b");
  DeviceType& first = scenario.cluster.types.front();
  first.copy_bandwidth = Bandwidth(100);
  DeviceType second = first;
  second.copy_bandwidth = Bandwidth(50);
  scenario.cluster.types.push_back(second);
  scenario.cluster.devices[1].type = 1;
  scenario.optimizer.name = "adam";
  scenario.offload.optimizer = scenario.offload.streams = true;
  test::TableCosts costs = test::chain_of(2, 1, 1, 1, 400);
  for (UnitCost& unit : costs.table.units) unit.streams = Streamed::All;
  const TaskGraph graph = test::lowered(scenario, costs);
  std::map<std::pair<TaskKind, ActionKind>, std::vector<double>> seconds;  // by rank
  for (const Task& task : graph.tasks)
    seconds[{task.kind, task.action.kind}].push_back(to_duration(graph.programs[task.program].duration).base());
  EXPECT_EQ((seconds[{TaskKind::Pass, ActionKind::F}]), (std::vector<double>{4, 8}));
  const std::vector<double>& updates = seconds[{TaskKind::Optimizer, ActionKind::Opt}];
  ASSERT_EQ(updates.size(), 2U);
  EXPECT_GT(updates[0], 0);
  EXPECT_DOUBLE_EQ(updates[1], 2 * updates[0]);
}

}  // namespace
}  // namespace panpipe
