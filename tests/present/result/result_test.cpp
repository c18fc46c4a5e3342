#include "present/result/result.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "present/result/result_plan.hpp"
#include "tests/costmodel/timeline/small_step.hpp"

namespace panpipe::present {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> keys(const ordered_json& object) {
  std::vector<std::string> names;
  for (const auto& [key, value] : object.items()) names.push_back(key);
  return names;
}

ResultContext context() {
  ResultContext c;
  c.version = "1.2";
  c.scenario = "a \"b\".yaml";
  c.hashes = {{"a.yaml", "00ff"}};
  c.with_clock = false;
  return c;
}

// A device at nine tenths of its rate, without which the step takes 0.9 of its 2 s; and a link.
TEST(ResultJson, BlamesInNumbers) {
  const Timeline timeline = estimate(testing::small_step());
  ResultContext c = context();
  Blame device{"device 3 (rank 1)", 3, 1}, link{"node0.nic3"};
  device.share = 0.9, device.step = seconds(1.8), device.lost = seconds(0.2);
  link.share = 0.5, link.step = seconds(2), link.lost = seconds(0);
  c.blame = {device, link};
  const ordered_json json = ordered_json::parse(to_result_json(timeline, metrics(timeline), c, false))["blame"];
  EXPECT_THAT(keys(json[0]), ::testing::ElementsAre("device", "index", "rank", "rate", "step_time_s", "lost_s", "of_step"));
  EXPECT_EQ(json[0]["rank"], 1);
  EXPECT_DOUBLE_EQ(json[0]["of_step"].get<double>(), 0.1);
  EXPECT_THAT(keys(json[1]), ::testing::ElementsAre("link", "rate", "step_time_s", "lost_s", "of_step"));
  EXPECT_EQ(json[1]["link"], "node0.nic3");
}

TEST(ResultJson, HasTheKeysInTheirOrder) {
  const Timeline timeline = estimate(testing::small_step());
  const Metrics m = metrics(timeline);
  const ordered_json json = ordered_json::parse(to_result_json(timeline, m, context(), true));
  EXPECT_THAT(keys(json),
              ::testing::ElementsAre("schema", "kind", "context", "metrics", "memory", "evidence", "repetitions", "timeline"));
  EXPECT_EQ(json["schema"], "panpipe-result/1");
  EXPECT_EQ(json["kind"], "estimated");
  EXPECT_EQ(json["context"]["scenario"], "a \"b\".yaml");
  EXPECT_EQ(json["context"]["hashes"]["a.yaml"], "00ff");
  EXPECT_FALSE(json["context"].contains("date"));
  EXPECT_THAT(keys(json["metrics"]),
              ::testing::ElementsAre("step_time_s", "compute_s", "exposed_communication_s", "bubble_step", "bubble_span",
                                     "allocated_memory_bytes", "reserved_memory_bytes", "peak_memory_bytes", "memory_limit_bytes",
                                     "fits", "parameters", "model_flops", "mfu", "samples_per_s", "fits_how", "per_device"))
      << "without an interval";
  Metrics with_interval = m;
  with_interval.step_time_p10_s = 1, with_interval.step_time_p50_s = 2, with_interval.step_time_p90_s = 3;
  EXPECT_EQ(ordered_json::parse(to_result_json(timeline, with_interval, context(), true))["metrics"]["step_time_p90_s"], 3);
  EXPECT_EQ(json["metrics"]["step_time_s"].get<double>(), m.step_time_s);  // the same number, to the last bit
  EXPECT_EQ(json["metrics"]["exposed_communication_s"].get<double>(), m.exposed_communication_s);
  EXPECT_EQ(json["metrics"]["fits"], false);
  ASSERT_EQ(json["metrics"]["per_device"].size(), 4u);
  EXPECT_THAT(keys(json["metrics"]["per_device"][3]),
              ::testing::ElementsAre("device", "rank", "step_time_s", "compute_s", "exposed_communication_s", "bubble_step",
                                     "bubble_span", "allocated_memory_bytes", "reserved_memory_bytes", "peak_memory_bytes",
                                     "memory_limit_bytes", "fits"));
  ASSERT_EQ(json["timeline"].size(), timeline.spans.size());
  EXPECT_EQ(
      json["timeline"][4].dump(),
      R"({"device":0,"lane":"send","action":"0SEND_F0","microbatch":0,"stage":0,"start_s":0.0025,"end_s":0.003,"bytes":4194304})");
  EXPECT_EQ(json["memory"].size(), 2u);
  EXPECT_EQ(json["memory"][0]["parts"]["activations"], mib(100).base());
  EXPECT_EQ(json["memory"][0]["limit_bytes"], mib(800).base());
  EXPECT_EQ(json["metrics"]["memory_limit_bytes"], mib(800).base());
  EXPECT_EQ(json["metrics"]["per_device"][0]["memory_limit_bytes"], mib(800).base());
  EXPECT_FALSE(json["context"].contains("unused_devices"));  // not known here
  EXPECT_TRUE(json["memory"][0].contains("curve"));
}

TEST(ResultJson, SimulatedHasContentionAndTheTimelineIsLeftOutUnlessAsked) {
  Timeline timeline = estimate(testing::small_step());
  timeline.kind = TimelineKind::Simulated;
  timeline.contention_lost = millis(2);
  timeline.contention = {{"node 0 socket", millis(8), millis(4), millis(2), 3, 0.5}};
  const ordered_json json = ordered_json::parse(to_result_json(timeline, metrics(timeline), context(), false));
  EXPECT_THAT(keys(json),
              ::testing::ElementsAre("schema", "kind", "context", "metrics", "memory", "evidence", "contention", "repetitions"));
  EXPECT_EQ(json["metrics"]["contention_s"], 0.002);
  EXPECT_EQ(json["contention"][0].dump(),
            R"({"resource":"node 0 socket","busy_s":0.008,"shared_s":0.004,"lost_s":0.002,"flows":3,"utilisation":0.5})");
  EXPECT_FALSE(json["memory"][0].contains("curve"));
}

TEST(ResultJson, OnlyTheContextDiffersBetweenCalls) {
  const Timeline timeline = estimate(testing::small_step());
  ResultContext clock = context();
  clock.with_clock = true;
  clock.wall_s = 0.25;
  ordered_json a = ordered_json::parse(to_result_json(timeline, metrics(timeline), clock, true));
  EXPECT_THAT(keys(a["context"]),
              ::testing::ElementsAre("version", "scenario", "devices", "seed", "hashes", "libraries", "host", "date", "wall_s"));
  ordered_json b = ordered_json::parse(to_result_json(timeline, metrics(timeline), context(), true));
  a.erase("context");
  b.erase("context");
  EXPECT_EQ(a.dump(), b.dump());
}

// Facts with which a reader follows the step: the plan's decisions, and spans that waited or were slowed.
TEST(ResultJson, ReportsThePlanAndWhatWasSlowed) {
  Timeline timeline = estimate(testing::small_step());
  const ResultPlan plan{{.schedule = "zb-h1",
                         .transfers = "blocking",
                         .degrees = {.pipeline = 2, .data = 2, .micro = 4, .zero = 1},
                         .stages = 2,
                         .recomputed_stages = 1,
                         .fully_recomputed_stages = 1,
                         .splits_backward = true,
                         .overlaps_reductions = true},
                        {{"pipeline", {"bridge", "host"}}, {"data", {"network"}}},
                        "a model\non devices\n"};
  Span& send = timeline.spans[4];
  send.alone = (send.end - send.start) / 4;
  send.waiting = Duration(0);
  const ordered_json json = ordered_json::parse(to_result_json(timeline, metrics(timeline), context(), plan, true));
  EXPECT_THAT(keys(json), ::testing::ElementsAre("schema", "kind", "context", "metrics", "memory", "evidence", "repetitions",
                                                 "plan", "timeline", "paths", "heading"));
  EXPECT_EQ(
      json["plan"].dump(),
      R"({"schedule":"zb-h1","transfers":"blocking","pipeline":2,"tensor":1,"data":2,"zero":1,"micro":4,"stages":2,)"
      R"("recomputed_stages":1,"fully_recomputed_stages":1,"splits_backward":true,"braided":false,"overlaps_reductions":true})");
  EXPECT_EQ(json["paths"].dump(), R"({"pipeline":["bridge","host"],"data":["network"]})");
  EXPECT_EQ(json["heading"].dump(), R"(["a model","on devices"])");
  EXPECT_EQ(json["timeline"][4]["alone_s"], 0.000125);
  EXPECT_EQ(json["memory"][0]["copies"].size(), 1u);
  timeline.kind = TimelineKind::Measured;
  EXPECT_FALSE(
      ordered_json::parse(to_result_json(timeline, metrics(timeline), context(), plan, true))["plan"].contains("transfers"));
}

TEST(Table, ReportsWhereTheStepGoesAndWhyItDoesNotFit) {
  const Timeline timeline = estimate(testing::small_step());
  const std::string table = to_table(timeline, metrics(timeline), false);
  // Mean of both ranks: compute 7, exposed 1.75, the rest 7.25 of 16 ms.
  EXPECT_THAT(table, HasSubstr("43.8 %"));
  EXPECT_THAT(table, HasSubstr("10.9 %"));
  EXPECT_THAT(table, HasSubstr("45.3 %"));
  EXPECT_THAT(table, HasSubstr("memory  fits: no, device 0 needs "));
  for (const char* part : {"  parameters  ", "  context  ", "  activations  ", "  fragmentation  "})
    EXPECT_THAT(table, HasSubstr(part));
  EXPECT_LT(table.find("  parameters  "), table.find("  context  "));
  EXPECT_THAT(table, HasSubstr("2 more devices do the same as the one of their pipeline rank\n"));
  EXPECT_THAT(table, Not(HasSubstr("contention")));
  EXPECT_THAT(table, Not(HasSubstr("\x1b")));
  EXPECT_THAT(to_table(timeline, metrics(timeline), true), HasSubstr("\x1b[31mfits: no\x1b[0m"));
}

// A model of MiB on a device of many GiB: the column has a unit that shows it, and the parts are named one by one.
TEST(Table, SmallPeaksHaveDigitsAndParts) {
  Timeline timeline = estimate(testing::small_step());
  for (DeviceTimeline& device : timeline.devices) {
    device.limit = gib(80);
    device.peak = kib(3 * 1024 + 512);
    device.peak_parts = {{MemoryUse::Parameters, mib(2)}, {MemoryUse::Activations, kib(1535)}, {MemoryUse::Temporary, kib(1)}};
  }
  const std::string table = to_table(timeline, metrics(timeline), false);
  EXPECT_THAT(table, HasSubstr("  peak MiB  fits\n"));
  EXPECT_THAT(table, HasSubstr("       3.5   yes\n"));
  EXPECT_THAT(table, ::testing::ContainsRegex(
                         "  parameters +(·)+ +2.00 MiB\n  activations +(·)+ +1.50 MiB\n  the rest +1.00 KiB  temporary\n"));
  for (DeviceTimeline& device : timeline.devices) device.peak = mib(103);
  EXPECT_THAT(to_table(timeline, metrics(timeline), false), HasSubstr("  peak GiB  fits\n"));
}

TEST(Table, ListsContendedLinksWorstFirst) {
  Timeline timeline = estimate(testing::small_step());
  timeline.kind = TimelineKind::Simulated;
  EXPECT_THAT(to_table(timeline, metrics(timeline), false), HasSubstr("contention  none: no link was shared\n"));
  timeline.contention_lost = millis(4);
  timeline.contention = {{"quiet", millis(8), seconds(0), seconds(0), 1, 0.1},
                         {"bridge", millis(8), millis(1), millis(1), 2, 0.2},
                         {"socket", millis(9), millis(4), millis(3), 3, 0.9}};
  const std::string table = to_table(timeline, metrics(timeline), false);
  EXPECT_THAT(table, HasSubstr("of the step (25.0 %)"));
  EXPECT_LT(table.find("socket"), table.find("bridge"));
  EXPECT_THAT(table, Not(HasSubstr("quiet")));
}

}  // namespace
}  // namespace panpipe::present
