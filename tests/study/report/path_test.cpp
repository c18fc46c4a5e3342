// Traffic, critical path and hints of small steps, worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <functional>

#include "costmodel/estimate/estimate.hpp"
#include "costmodel/plan/transfer_semantics.hpp"
#include "study/report/critical_path.hpp"
#include "study/report/hints.hpp"
#include "study/report/traffic.hpp"
#include "tests/cli/program.hpp"
#include "tests/costmodel/lowering/tables.hpp"

namespace panpipe::study {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

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
present::ResultDocument two_ranks() {
  present::ResultDocument result;
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
    device.peak_parts = {{MemoryUse::Parameters, Bytes(1'000'000'000)},
                         {MemoryUse::Activations, device.peak - Bytes(1'000'000'000)}};
    timeline.devices.push_back(device);
  }
  DeviceMetrics first, second;
  first.compute_s = 6;                // 2 + 3 + 1
  first.exposed_communication_s = 2;  // 2-3 and 9-10
  second.device = second.rank = 1;
  second.compute_s = 7;                // 2 + 4 + 1
  second.exposed_communication_s = 1;  // 2-3; 9-10 overlaps the optimizer
  result.per_device = {first, second};
  result.metrics = {{"step_time_s", 14}, {"bubble_step", 1 - 13.0 / 28}};
  return result;
}

TEST(ReportPath, FollowsInputsAcrossDevices) {
  const std::vector<PathPart> path = critical_path(two_ranks());
  std::vector<std::string> texts;
  for (const PathPart& part : path)
    texts.push_back(part.action + "@" + std::to_string(part.device) + " " + std::to_string(static_cast<int>(part.start)) + "-" +
                    std::to_string(static_cast<int>(part.end)));
  EXPECT_EQ(texts, (std::vector<std::string>{"0F0@0 0-2", "1RECV_F0@1 2-3", "1F0@1 3-5", "1B0@1 5-9", "0RECV_B0@0 9-10",
                                             "0B0@0 10-13", "OPT@0 13-14"}));
}

TEST(ReportPath, WhatNothingExplainsIsAGap) {
  present::ResultDocument result = two_ranks();
  for (Span& span : result.timeline.spans)
    if (span.device == 0 && span.action.kind == ActionKind::Opt) span.start = Duration(13.5);  // the host was late
  for (const TimelineKind kind : {TimelineKind::Measured, TimelineKind::Estimated}) {
    result.kind = kind;
    const std::vector<PathPart> path = critical_path(result);
    ASSERT_EQ(path.size(), 8U);
    EXPECT_EQ(path[6].kind, PathPartKind::Gap);
    EXPECT_DOUBLE_EQ(path[6].end - path[6].start, 0.5);
    EXPECT_STREQ(name_of(path[6].kind), "gaps (host, clocks)");
  }
}

TEST(ReportPath, EmptyTimelinesHaveNone) { EXPECT_TRUE(critical_path(present::ResultDocument{}).empty()); }

// A measured pass that starts when a send of its own rank ends was not held by it: the executor goes on.
TEST(ReportPath, MeasuredSendsHoldNobody) {
  present::ResultDocument result = two_ranks();
  result.kind = TimelineKind::Measured;
  for (Span& span : result.timeline.spans)
    if (span.device == 1 && span.action.kind == ActionKind::Opt) span.start = Duration(10), span.end = Duration(20);
  EXPECT_NEAR(sums_of(critical_path(result))[PathPartKind::Gap], 1, 1e-12);
  result.kind = TimelineKind::Estimated;
  EXPECT_EQ(sums_of(critical_path(result))[PathPartKind::Gap], 0);
  EXPECT_NEAR(sums_of(critical_path(result))[PathPartKind::Held], 1, 1e-12);
  result.plan.transfers = "asynchronous";
  EXPECT_NEAR(sums_of(critical_path(result))[PathPartKind::Gap], 1, 1e-12);
}

// Two ranks, four microbatches, F 1 s, B 2 s, a hand-over 0.5 s, the optimizer nothing.
present::ResultDocument two_ranks_of(Scenario scenario, TransferRules::Semantics semantics) {
  test::TableCosts costs = test::chain_of(2, 1, 1, 1);
  costs.latency = Duration(0.5);
  scenario.transfers.semantics = semantics;
  const Timeline timeline = estimate(test::lowered(scenario, costs));
  present::ResultPlan plan;
  plan.facts.transfers = name_of(semantics);
  return present::parse_result(present::to_result_json(timeline, metrics(timeline), {}, plan, true), "made.json");
}

present::ResultDocument two_ranks_1f1b(TransferRules::Semantics semantics) {
  return two_ranks_of(test::scenario_of(2, 4, "1f1b"), semantics);
}

using Sums = std::map<PathPartKind, double>;

// Blocking. Rank 0: F0 0-1, held to 1.5, F1 1.5-2.5, held to 3, B0 5-7, F2 7-8, held to 8.5, B1 8.5-10.5, F3 10.5-11.5, held to
// 12, B2 12-14, B3 15.5-17.5. Rank 1: F0 1.5-2.5, B0 2.5-4.5, held to 5, F1 5-6, B1 6-8, held to 8.5, F2 8.5-9.5, B2 9.5-11.5,
// held to 12, F3 12-13, B3 13-15. From the end: B3, its gradient 15-15.5, B3 and F3 on rank 1, activations 11.5-12, F3 and B1 on
// rank 0, gradient 8-8.5, B1 and F1 on rank 1, the send 4.5-5 that held it, B0 and F0, activations 1-1.5, F0.
TEST(ReportPath, FollowsBlockingSends) {
  const present::ResultDocument result = two_ranks_1f1b(TransferRules::Semantics::Blocking);
  EXPECT_DOUBLE_EQ(result.timeline.step_time.base(), 17.5);
  const std::vector<PathPart> path = critical_path(result);
  std::string text;
  for (const PathPart& part : path)
    if (part.kind != PathPartKind::Pass && part.kind != PathPartKind::Optimizer)
      text += fmt::format("{} {}@{} {}-{}, ", name_of(part.kind), part.action, part.device, part.start, part.end);
  EXPECT_EQ(text,
            "transfers between stages 1RECV_F0@1 1-1.5, senders held by their transfers 1SEND_B0@1 4.5-5, "
            "transfers between stages 0RECV_B1@0 8-8.5, transfers between stages 1RECV_F3@1 11.5-12, "
            "transfers between stages 0RECV_B3@0 15-15.5, ");
  Sums sums = sums_of(path);
  EXPECT_DOUBLE_EQ(sums[PathPartKind::Pass], 15);
  EXPECT_DOUBLE_EQ(sums[PathPartKind::Transfer], 2);
  EXPECT_DOUBLE_EQ(sums[PathPartKind::Held], 0.5);
  EXPECT_DOUBLE_EQ(sums[PathPartKind::Gap], 0);
}

// Asynchronous: nobody is held. Rank 1 works without a pause from 1.5 on (F0 B0 F1 B1 F2 B2 F3 B3, 3 s each pair) until 13.5;
// then a gradient and B3 of rank 0 to 16.
TEST(ReportPath, HoldsNobodyWithAsynchronousSends) {
  const present::ResultDocument result = two_ranks_1f1b(TransferRules::Semantics::Asynchronous);
  Sums sums = sums_of(critical_path(result));
  EXPECT_DOUBLE_EQ(sums[PathPartKind::Held], 0);
  EXPECT_DOUBLE_EQ(sums[PathPartKind::Gap], 0);
  EXPECT_DOUBLE_EQ(sums[PathPartKind::Pass] + sums[PathPartKind::Transfer], result.timeline.step_time.base());
  // Rank 0 has one more forward in flight than rank 1, so that every gradient comes in time or costs its way.
  EXPECT_LT(result.timeline.step_time.base(), 17.5);
}

// Steps in a row: everything is of one of them. Of 2BW, rank 0 has one forward more under way than rank 1, so that two
// microbatches take 1 + 0.5 + 3 + 0.5 + 2 = 7 s and a step of four 14 s; four transfers of 0.5 s go each way.
TEST(ReportPath, OfStepsInARowIsOneStepLong) {
  for (const std::string family : {"pipedream-2bw", "1f1b"}) {
    SCOPED_TRACE(family);
    Scenario scenario = test::scenario_of(2, 4, family);
    if (family == "1f1b") scenario.schedule.options["post_validation"] = "true";
    const present::ResultDocument result = two_ranks_of(scenario, TransferRules::Semantics::Asynchronous);
    const double period = result.timeline.step_time.base();
    if (family == "pipedream-2bw") {
      EXPECT_DOUBLE_EQ(period, 14);
    }
    const int steps = steps_of_path(result);
    double sum = 0;
    Sums sums = sums_of(critical_path(result), steps);
    for (const auto& [kind, time] : sums) sum += time;
    EXPECT_NEAR(sum, period, 1e-9);
    EXPECT_EQ(sums[PathPartKind::Gap], 0);
    const Traffic traffic = traffic_of(result);
    ASSERT_EQ(traffic.lanes.size(), 4U);
    for (const LaneTraffic& lane : traffic.lanes) {
      EXPECT_EQ(lane.count, 4);
      EXPECT_EQ(lane.bytes, 4 * 8);
      EXPECT_NEAR(lane.busy, 2, 1e-9);
    }
    EXPECT_LE(traffic.pipeline, period - 12 + 1e-9);  // a rank computes for 12 s
  }
}

// A link that is shared: the part beyond the time on an idle link has a name.
TEST(ReportPath, ReportsSharingFromTransfers) {
  present::ResultDocument result = two_ranks();
  result.kind = TimelineKind::Simulated;
  for (Span& span : result.timeline.spans)
    if (span.lane == Lane::Receive) span.alone = Duration(0.25);  // took 1 s
  result.timeline.spans[0].waiting = Duration(0.5);               // F of rank 0, for its tensor-parallel group
  Sums sums = sums_of(critical_path(result));
  EXPECT_DOUBLE_EQ(sums[PathPartKind::Transfer], 0.5);
  EXPECT_DOUBLE_EQ(sums[PathPartKind::Sharing], 1.5);
  EXPECT_DOUBLE_EQ(sums[PathPartKind::PassCollective], 0.5);
  EXPECT_DOUBLE_EQ(sums[PathPartKind::Pass], 2 + 2 + 4 + 3 - 0.5);
}

// A prediction's chain goes from 0 to the step's end without a hole or a gap, for any schedule, semantics of transfers, degrees
// and engine. Only replicas of the rank that is drawn may be waited for, where links are shared.
struct Chain {
  std::string name, scenario, settings;
};

class PredictedChain : public testing::TestWithParam<Chain> {};

TEST_P(PredictedChain, HasNoGap) {
  const auto& [name, scenario, settings] = GetParam();
  const std::string file = test::temporary_folder() + "/result.json";
  for (const std::string semantics : {"asynchronous", "blocking", "batched"})
    for (const std::string verb : {"estimate", "simulate"}) {
      SCOPED_TRACE(verb + " " + semantics);
      const test::Outcome run = test::panpipe(
          verb + " scenarios/examples/" + scenario + " --json --timeline --set transfers.semantics=" + semantics + settings,
          file);
      ASSERT_EQ(run.exit_code, 0) << run.err;
      const present::ResultDocument result = present::read_result(file);
      ASSERT_EQ(result.plan.transfers, semantics);
      const std::vector<PathPart> path = critical_path(result);
      ASSERT_FALSE(path.empty());
      EXPECT_EQ(path.front().start, 0);
      EXPECT_DOUBLE_EQ(path.back().end, result.timeline.step_time.base());
      for (std::size_t i = 1; i < path.size(); ++i) EXPECT_EQ(path[i].start, path[i - 1].end) << "part " << i;
      for (const PathPart& part : path) {
        EXPECT_GE(part.end, part.start);
        EXPECT_LE(part.inside, (part.end - part.start) * (1 + 1e-12));
        EXPECT_NE(part.kind, PathPartKind::Gap) << fmt::format("device {}, {} to {}", part.device, part.start, part.end);
        if (verb == "estimate" || result.plan.degrees.data == 1) {
          EXPECT_NE(part.kind, PathPartKind::Replicas);
        }
        if (verb == "estimate") {
          EXPECT_NE(part.kind, PathPartKind::Sharing);
        }
        if (semantics == "asynchronous") {
          EXPECT_NE(part.kind, PathPartKind::Held);
        }
      }
    }
}

const std::string kGpt2 = "gpt2-large-rtx3090x8.yaml", kGpt3 = "gpt3-175b-a100x64.yaml";
INSTANTIATE_TEST_SUITE_P(
    Steps, PredictedChain,
    testing::Values(Chain{"as_it_is", kGpt2, ""}, Chain{"without_bridges", "gpt2-large-rtx3090x8-nobridge.yaml", ""},
                    Chain{"gpt3", kGpt3, ""}, Chain{"gpipe", kGpt2, " --set schedule=gpipe"},
                    Chain{"zb_h1", kGpt2, " --set schedule=zb-h1"}, Chain{"zb_v", kGpt2, " --set schedule=zb-v"},
                    Chain{"interleaved", kGpt2, " --set parallel.pipeline=4 --set schedule=interleaved-1f1b"},
                    Chain{"dualpipe", kGpt2, " --set parallel.pipeline=4 --set schedule=dualpipe"},
                    Chain{"slices", kGpt2, " --set schedule=seq-1f1b"},
                    Chain{"braids", kGpt2,
                          " --set 'parallel={pipeline: 4, tensor: 2}' --set schedule=stp --set batch.microbatches=12"},
                    Chain{"early_gradients", kGpt2,
                          " --set 'parallel={pipeline: 4, tensor: 2}' --set schedule=1f1b --set "
                          "transfers.full_backward_sends=input_gradient --set trailing_collectives=overlapped"},
                    Chain{"replicas", kGpt2, " --set 'parallel={pipeline: 4, data: 2}' --set schedule=1f1b"},
                    Chain{"replicas_beside", kGpt2,
                          " --set 'parallel={pipeline: 2, data: 2, tensor: 2}' --set schedule=1f1b --set overlap_gradients=true"},
                    Chain{"zero_1", kGpt2, " --set 'parallel={pipeline: 2, data: 4, zero: 1}' --set schedule=1f1b"},
                    Chain{"zero_3", kGpt2, " --set 'parallel={pipeline: 2, data: 4, zero: 3}' --set schedule=1f1b"},
                    Chain{"offload", kGpt2, " --set 'schedule={name: 1f1b, offload: selective}'"},
                    Chain{"recompute", kGpt2, " --set 'schedule={name: 1f1b, recompute: full}'"}),
    [](const auto& chain) { return chain.param.name; });

TEST(ReportTraffic, CountsWhatRunsDuringAnIdleLane) {
  present::ResultDocument result = two_ranks();
  const Traffic traffic = traffic_of(result);
  ASSERT_EQ(traffic.lanes.size(), 4U);
  EXPECT_EQ(traffic.lanes[0].lane, Lane::Send);
  EXPECT_EQ(traffic.lanes[0].bytes, 2000);
  EXPECT_DOUBLE_EQ(traffic.lanes[0].exposed, 1);
  EXPECT_DOUBLE_EQ(traffic.lanes[2].busy, 1);  // device 1's send overlaps its optimizer
  EXPECT_DOUBLE_EQ(traffic.lanes[2].exposed, 0);
  EXPECT_DOUBLE_EQ(traffic.pipeline, (2.0 + 1.0) / 2);
  EXPECT_DOUBLE_EQ(traffic.tensor, 0);
  result.per_device[0].exposed_communication_s += 0.5;  // a pass waited for a collective inside itself
  EXPECT_DOUBLE_EQ(traffic_of(result).tensor, 0.25);
}

TEST(ReportHints, StateWhatTheNumbersHold) {
  present::ResultDocument result = two_ranks();
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

// Measures that the plan has taken already are not recommended, others are.
TEST(ReportHints, RecommendWhatThePlanHasNot) {
  present::ResultDocument result = two_ranks();
  for (DeviceMetrics& device : result.per_device) device.exposed_communication_s += 2.52;
  result.timeline.spans.push_back(span_of(1, Lane::Data, ActionKind::ReduceGrad, -1, -1, 10, 12));  // during an idle lane
  const auto text = [&] {
    std::string all;
    for (const Hint& hint : hints_for(result, traffic_of(result))) all += hint.text + "\n";
    return all;
  };
  struct Case {
    const char* words;
    std::function<void(present::PlanFacts&)> take;
  };
  present::PlanFacts plain;
  plain.degrees.pipeline = plain.stages = plain.degrees.tensor = plain.degrees.data = plain.degrees.micro = 2;
  plain.transfers = "asynchronous";
  const Case cases[] = {
      {"schedule that splits the backward (zb-h1, zb-v)", [](present::PlanFacts& plan) { plan.splits_backward = true; }},
      {"more stages per rank", [](present::PlanFacts& plan) { plan.stages = 4; }},
      {"a braided schedule (stp)", [](present::PlanFacts& plan) { plan.braided = true; }},
      {"smaller tensor degree", [](present::PlanFacts& plan) { plan.degrees.tensor = 1; }},
      {"(overlap_gradients: true)", [](present::PlanFacts& plan) { plan.overlaps_reductions = true; }},
      {"(overlap_gradients: true)", [](present::PlanFacts& plan) { plan.degrees.data = 1; }},
      {"ecomputation", [](present::PlanFacts& plan) { plan.fully_recomputed_stages = plan.recomputed_stages = plan.stages; }},
      {"maller microbatches", [](present::PlanFacts& plan) { plan.degrees.micro = 1; }},
      {"ZeRO", [](present::PlanFacts& plan) { plan.degrees.zero = 3; }},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.words);
    result.plan = plain;
    EXPECT_THAT(text(), HasSubstr(one.words));
    one.take(result.plan);
    EXPECT_THAT(text(), Not(HasSubstr(one.words)));
  }
  result.plan = plain;
  EXPECT_THAT(text(), Not(HasSubstr("do not hold their rank")));
  result.plan.transfers = "blocking";
  EXPECT_THAT(text(), HasSubstr("or sends that do not hold their rank (transfers.semantics is blocking here) would hide"));
  result.plan.degrees.zero = 1;
  EXPECT_THAT(text(), HasSubstr("a higher level of ZeRO"));
  for (DeviceTimeline& device : result.timeline.devices) device.peak = Bytes(40'000'000);  // of 8 GB
  EXPECT_THAT(text(), HasSubstr("uses less than 1 % of its memory: larger microbatches or a schedule that holds more "
                                "activations may be faster."));
  result.plan.recomputed_stages = 1;
  EXPECT_THAT(text(), HasSubstr("larger microbatches, less recomputation or a schedule that"));
}

// The facts that the program writes are those of the plan.
TEST(ReportHints, FactsOfThePlanComeFromTheDocument) {
  const std::string file = test::temporary_folder() + "/result.json";
  const auto facts = [&](const std::string& settings) {
    EXPECT_EQ(test::panpipe("estimate scenarios/examples/" + kGpt2 + " --json" + settings, file).exit_code, 0);
    return present::read_result(file).plan;
  };
  const present::PlanFacts plain = facts(" --set schedule=1f1b --set recompute=none");
  EXPECT_EQ(plain.schedule, "1f1b");
  EXPECT_FALSE(plain.splits_backward || plain.braided || plain.overlaps_reductions);
  EXPECT_EQ(plain.recomputed_stages + plain.fully_recomputed_stages, 0);
  EXPECT_EQ(plain.stages, plain.degrees.pipeline);
  const present::PlanFacts split = facts(" --set schedule=zb-v --set recompute=full");
  EXPECT_TRUE(split.splits_backward);
  EXPECT_EQ(split.stages, 2 * split.degrees.pipeline);
  EXPECT_EQ(split.fully_recomputed_stages, split.stages);
  const present::PlanFacts woven = facts(" --set 'parallel={pipeline: 2, tensor: 2, data: 2, zero: 2}' --set schedule=stp");
  EXPECT_TRUE(woven.braided && woven.overlaps_reductions);
  EXPECT_EQ(woven.degrees.zero, 2);
  EXPECT_EQ(facts(" --set 'schedule={name: 1f1b, recompute: full}'").fully_recomputed_stages, plain.stages);
}

// The link that is named is one that the traffic crosses, not the busiest of all.
TEST(ReportHints, NameTheLinksThatTheTrafficCrosses) {
  present::ResultDocument result = two_ranks();
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
}  // namespace panpipe::study
