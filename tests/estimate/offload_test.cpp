// Recompute and offload of a scenario's schedule, from the scenario to times and memory.
#include <gtest/gtest.h>

#include "costmodel/base/error.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "costmodel/plan/task_graph.hpp"
#include "tests/plan/tables.hpp"

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
  return estimate(lower(scenario, make_plan(scenario, costs), costs));
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
  try {
    timeline_of("offload", "full", 0);
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "error: device 'given' has no copy_bandwidth, which 0OFFLOAD0 needs");
  }
}

// Recompute in front of every backward is an action of its own: 4 more spans on the compute lane.
TEST(Recompute, OfASchedule) {
  const Timeline timeline = timeline_of("recompute", "full");
  int again = 0;
  for (const Span& span : timeline.spans) again += span.action.kind == ActionKind::R;
  EXPECT_EQ(again, 4);
}

}  // namespace
}  // namespace panpipe
