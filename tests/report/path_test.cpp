// Traffic, critical path and hints of small steps, worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.hpp"
#include "validation/report/critical_path.hpp"
#include "validation/report/hints.hpp"
#include "validation/report/traffic.hpp"

namespace panpipe {
namespace {

using ::testing::HasSubstr;

Span span_of(int device, Lane lane, ActionKind kind, int stage, int microbatch, double start, double end,
             std::int64_t bytes = 0) {
  Span span;
  span.device = device;
  span.lane = lane;
  span.action.kind = kind;
  span.action.stage = stage;
  span.action.microbatch = microbatch;
  span.start = Duration(start);
  span.end = Duration(end);
  span.bytes = Bytes(bytes);
  return span;
}

// Two ranks, one microbatch, passes of 2 s (F) and 3 s (B), transfers of 1 s, optimizers of 1 s.
//   rank 0: F 0-2 .......................... B 10-13, OPT 13-14
//   rank 1: ......... F 3-5, B 5-9 (4 s), OPT 9-10
//   SEND_F 2-3, SEND_B 9-10
ResultDocument two_ranks() {
  ResultDocument result;
  Timeline& timeline = result.timeline;
  timeline.spans = {span_of(0, Lane::Compute, ActionKind::F, 0, 0, 0, 2),
                    span_of(0, Lane::Compute, ActionKind::B, 0, 0, 10, 13),
                    span_of(0, Lane::Compute, ActionKind::Opt, -1, -1, 13, 14),
                    span_of(0, Lane::Send, ActionKind::SendF, 0, 0, 2, 3, 2000),
                    span_of(0, Lane::Receive, ActionKind::RecvB, 0, 0, 9, 10, 1000),
                    span_of(1, Lane::Compute, ActionKind::F, 1, 0, 3, 5),
                    span_of(1, Lane::Compute, ActionKind::B, 1, 0, 5, 9),
                    span_of(1, Lane::Compute, ActionKind::Opt, -1, -1, 9, 10),
                    span_of(1, Lane::Send, ActionKind::SendB, 1, 0, 9, 10, 1000),
                    span_of(1, Lane::Receive, ActionKind::RecvF, 1, 0, 2, 3, 2000)};
  timeline.step_time = Duration(14);
  for (int d = 0; d < 2; ++d) {
    DeviceTimeline device;
    device.device = device.rank = d;
    device.peak = Bytes(d == 0 ? 9'000'000'000 : 3'000'000'000);
    device.limit = Bytes(8'000'000'000);
    device.peak_parts = {{"parameters", Bytes(1'000'000'000)}, {"activations", device.peak - Bytes(1'000'000'000)}};
    timeline.devices.push_back(device);
  }
  DeviceMetrics first, second;
  first.compute_s = 6;                // 2 + 3 + 1
  first.exposed_communication_s = 2;  // 2-3 and 9-10
  second.device = second.rank = 1;
  second.compute_s = 7;                // 2 + 4 + 1
  second.exposed_communication_s = 1;  // 2-3; 9-10 lies beside the optimizer
  result.per_device = {first, second};
  result.metrics = {{"step_time_s", 14}, {"bubble_step", 1 - 13.0 / 28}};
  return result;
}

TEST(ReportPath, FollowsInputsAcrossDevices) {
  const std::vector<PathPart> path = critical_path(two_ranks().timeline);
  std::vector<std::string> texts;
  for (const PathPart& part : path)
    texts.push_back(part.action + "@" + std::to_string(part.device) + " " + std::to_string(static_cast<int>(part.start)) + "-" +
                    std::to_string(static_cast<int>(part.end)));
  EXPECT_EQ(texts, (std::vector<std::string>{"0F0@0 0-2", "1RECV_F0@1 2-3", "1F0@1 3-5", "1B0@1 5-9", "0RECV_B0@0 9-10",
                                             "0B0@0 10-13", "OPT@0 13-14"}));
}

TEST(ReportPath, WhatNothingExplainsIsAGap) {
  ResultDocument result = two_ranks();
  for (Span& span : result.timeline.spans)
    if (span.device == 0 && span.action.kind == ActionKind::Opt) span.start = Duration(13.5);  // the host was late
  const std::vector<PathPart> path = critical_path(result.timeline);
  ASSERT_EQ(path.size(), 8U);
  EXPECT_EQ(path[6].kind, PathKind::Gap);
  EXPECT_DOUBLE_EQ(path[6].end - path[6].start, 0.5);
}

TEST(ReportPath, EmptyTimelinesHaveNone) { EXPECT_TRUE(critical_path(Timeline{}).empty()); }

// Without holes from 0 to the step's end, whatever the schedule.
TEST(ReportPath, PredictedStepsAreExplainedWhole) {
  const std::string folder = test::temporary_folder();
  for (const std::string schedule : {"1f1b", "zb-h1", "gpipe", "interleaved-1f1b", "zb-v", "dualpipe"}) {
    const std::string file = folder + "/" + schedule + ".json";
    const test::Outcome run = test::panpipe(
        "estimate scenarios/examples/gpt2-large-rtx3090x8.yaml --set parallel.pipeline=4 --json --timeline --set schedule=" +
            schedule,
        file);
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const ResultDocument result = read_result(file);
    const std::vector<PathPart> path = critical_path(result.timeline);
    ASSERT_FALSE(path.empty());
    EXPECT_NEAR(path.front().start, 0, 1e-9) << schedule;
    EXPECT_NEAR(path.back().end, result.timeline.step_time.base(), 1e-9) << schedule;
    for (std::size_t i = 1; i < path.size(); ++i) EXPECT_NEAR(path[i].start, path[i - 1].end, 1e-9) << schedule << " part " << i;
    for (const PathPart& part : path) EXPECT_GE(part.end, part.start);
  }
}

TEST(ReportTraffic, CountsWhatRunsBesideAnIdleLane) {
  ResultDocument result = two_ranks();
  const Traffic traffic = traffic_of(result);
  ASSERT_EQ(traffic.lanes.size(), 4U);
  EXPECT_EQ(traffic.lanes[0].lane, Lane::Send);
  EXPECT_EQ(traffic.lanes[0].bytes, 2000);
  EXPECT_DOUBLE_EQ(traffic.lanes[0].exposed, 1);
  EXPECT_DOUBLE_EQ(traffic.lanes[2].busy, 1);  // device 1's send lies beside its optimizer
  EXPECT_DOUBLE_EQ(traffic.lanes[2].exposed, 0);
  EXPECT_DOUBLE_EQ(traffic.pipeline, (2.0 + 1.0) / 2);
  EXPECT_DOUBLE_EQ(traffic.tensor, 0);
  result.per_device[0].exposed_communication_s += 0.5;  // a pass waited for a collective inside itself
  EXPECT_DOUBLE_EQ(traffic_of(result).tensor, 0.25);
}

TEST(ReportHints, SayWhatTheNumbersHold) {
  ResultDocument result = two_ranks();
  const std::vector<Hint> hints = hints_for(result, traffic_of(result));
  ASSERT_EQ(hints.size(), 4U);
  // Bubble 15/28 = 53.6 %; doubled microbatches: b / (2 - b) = 15/41 = 36.6 %.
  EXPECT_THAT(hints[0].text, HasSubstr("idle for 53.6 % of the step"));
  EXPECT_THAT(hints[0].text, HasSubstr("it would be 36.6 %"));
  EXPECT_THAT(hints[1].text, HasSubstr("For 10.7 % of the step activations and gradients travel"));  // 1.5 / 14
  // Rank 1 computes 7 s, the mean is 6.5: 7.7 % more, 0.5 s of 14.
  EXPECT_THAT(hints[2].text, HasSubstr("Rank 1 computes 7.7 % longer than the mean"));
  EXPECT_DOUBLE_EQ(hints[2].seconds, 0.5);
  EXPECT_THAT(hints[3].text, ::testing::StartsWith("It does not fit: device 0 needs "));
  EXPECT_THAT(hints[3].text, HasSubstr("The largest part is activations"));
  result.timeline.devices[0].peak = Bytes(4'000'000'000);
  EXPECT_THAT(hints_for(result, traffic_of(result)).back().text, HasSubstr("uses only 50 % of its memory"));
}

// The link that is named is one that the traffic crosses, not the busiest of all.
TEST(ReportHints, NameTheLinksThatTheTrafficCrosses) {
  ResultDocument result = two_ranks();
  for (DeviceMetrics& device : result.per_device) device.exposed_communication_s += 2.52;  // 18 % of 14 s, inside passes
  result.paths = {{"tensor", {"switch"}}, {"pipeline", {"bridge", "host-sockets", "network"}}};
  result.timeline.contention = {{"node0.gpu1.staging", seconds(9), Duration(0), Duration(0), 1, 0.1},
                                {"node0.gpu3.switch.out", seconds(7), Duration(0), Duration(0), 1, 0.1},
                                {"node0.gpu2.switch.out", seconds(5), Duration(0), Duration(0), 1, 0.1}};
  std::string tensor, pipeline;
  for (const Hint& hint : hints_for(result, traffic_of(result))) {
    if (hint.text.find("tensor-parallel") != std::string::npos) tensor = hint.text;
    if (hint.text.find("between stages") != std::string::npos) pipeline = hint.text;
  }
  EXPECT_THAT(tensor, ::testing::StartsWith("18.0 % of the step is exposed tensor-parallel communication over NVSwitch. "));
  EXPECT_THAT(tensor,
              ::testing::EndsWith("The busiest link on its way is node0.gpu3.switch.out, in use for 50.0 % of the step."));
  EXPECT_THAT(pipeline, HasSubstr("travel between stages over NVLink bridges, copies through host memory between sockets and the "
                                  "network between nodes while"));
  EXPECT_THAT(pipeline, HasSubstr("on its way is node0.gpu1.staging, in use for 64.3 % of the step."));
}

}  // namespace
}  // namespace panpipe
