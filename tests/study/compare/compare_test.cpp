// Two results compared: hand-made documents, the arithmetic next to each expectation.
#include "study/compare/compare.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "costmodel/timeline/metric_table.hpp"
#include "present/result/result.hpp"
#include "study/compare/messages.hpp"
#include "study/compare/waits.hpp"
#include "tests/fault.hpp"

namespace panpipe::study {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json span(int device, const std::string& lane, const std::string& action, int microbatch, int stage, double start, double end,
          std::int64_t bytes = 0) {
  json row = {{"device", device}, {"lane", lane},     {"action", action}, {"microbatch", microbatch},
              {"stage", stage},   {"start_s", start}, {"end_s", end}};
  if (bytes > 0) row["bytes"] = bytes;
  return row;
}

// One microbatch over two devices; `slow` stretches device 1's forward, `wire` is the time of a hand-over.
//   device 0: F 0..2                          B at the end, 3 long
//   device 1:        F after 2 + wire, 2 x slow long, then B 3 long
json result(const std::string& kind, double slow, double wire) {
  const double f1 = 2 + wire, b1 = f1 + 2 * slow, b0 = b1 + 3 + wire, end = b0 + 3;
  json document = {{"schema", "panpipe-result/1"}, {"kind", kind}, {"context", {{"scenario", "small.yaml"}}}};
  document["metrics"] = {{"step_time_s", end}, {"bubble_step", 0.25}, {"fits", true}, {"peak_memory_bytes", 1000}};
  document["metrics"]["per_device"] = {{{"device", 0}, {"rank", 0}, {"peak_memory_bytes", 1000}},
                                       {{"device", 1}, {"rank", 1}, {"peak_memory_bytes", 900}}};
  document["memory"] = {
      {{"device", 0}, {"parts", {{"parameters", 600}, {"activations", 400}}}, {"curve", {{0.0, 600}, {2.0, 1000}}}},
      {{"device", 1}, {"parts", {{"parameters", 900}}}}};
  document["timeline"] = {span(0, "compute", "0F0", 0, 0, 0, 2),
                          span(0, "send", "0SEND_F0", 0, 0, 2, 2 + wire, 64),
                          span(1, "receive", "1RECV_F0", 0, 1, 2, 2 + wire, 64),
                          span(1, "compute", "1F0", 0, 1, f1, b1),
                          span(1, "compute", "1B0", 0, 1, b1, b1 + 3),
                          span(1, "send", "1SEND_B0", 0, 1, b1 + 3, b0, 64),
                          span(0, "receive", "0RECV_B0", 0, 0, b1 + 3, b0, 64),
                          span(0, "compute", "0B0", 0, 0, b0, end)};
  return document;
}

present::ResultDocument read(const json& document, const std::string& path = "a.json") {
  return present::parse_result(document.dump(), path);
}

std::string message_of(const std::function<void()>& call) { return test::diagnostic_of(call).message; }

const ComparedMetric& metric(const Comparison& comparison, const std::string& name) {
  for (const ComparedMetric& found : comparison.metrics)
    if (found.name == name) return found;
  throw std::runtime_error("no metric " + name);
}

TEST(Compare, MetricsDifferAgainstTheMeasurement) {
  // Estimated: 2 + 1 + 2 + 3 + 1 + 3 = 12 s. Measured with the forward 1.5 x as long: 13 s. 12 / 13 - 1 = -7.69 %.
  const present::ResultDocument estimated = read(result("estimated", 1, 1)),
                                measured = read(result("measured", 1.5, 1), "b.json");
  const Comparison one = compare(estimated, measured, {parse_tolerance("step_time_s=8%")});
  EXPECT_TRUE(one.reference_is_b);
  EXPECT_DOUBLE_EQ(metric(one, "step_time_s").difference, -1);
  EXPECT_DOUBLE_EQ(*metric(one, "step_time_s").relative, -1.0 / 13);
  EXPECT_TRUE(one.ok());
  EXPECT_FALSE(compare(estimated, measured, {parse_tolerance("step_time_s=7%")}).ok());
  // The other way round the reference is still what was measured.
  const Comparison other = compare(measured, estimated, {});
  EXPECT_FALSE(other.reference_is_b);
  EXPECT_DOUBLE_EQ(*metric(other, "step_time_s").relative, -1.0 / 13);
  // Of two predictions it is A: 13 / 12 - 1.
  EXPECT_DOUBLE_EQ(*metric(compare(estimated, read(result("simulated", 1.5, 1)), {}), "step_time_s").relative, 1.0 / 12);
}

TEST(Compare, AToleranceWithoutPercentIsInTheMetricsUnit) {
  const present::ResultDocument a = read(result("estimated", 1, 1)), b = read(result("estimated", 1.5, 1));
  EXPECT_TRUE(compare(a, b, {parse_tolerance("step_time_s=1")}).ok());
  EXPECT_FALSE(compare(a, b, {parse_tolerance("step_time_s=0.9")}).ok());
  EXPECT_TRUE(compare(a, b, {parse_tolerance("bubble_step=0"), parse_tolerance("fits=0")}).ok());
}

// Devices without rates: the document holds a 0, which is no share of any peak.
TEST(Compare, FactorsReplacePerCentBeyondTenTimes) {
  EXPECT_EQ(relative_text(0.123), "+12.3 %");
  EXPECT_EQ(relative_text(-0.5), "-50.0 %");
  EXPECT_EQ(relative_text(8.9), "+890.0 %");
  EXPECT_EQ(relative_text(987.701), "988.7 times");
}

TEST(Compare, AnMfuOfZeroIsNone) {
  json with = result("simulated", 1, 1), without = result("measured", 1, 1);
  with["metrics"]["mfu"] = 0.25;
  without["metrics"]["mfu"] = 0.0;
  const present::ResultDocument a = read(with), b = read(without);
  const Comparison comparison = compare(a, b, {});
  const auto mfu =
      std::find_if(comparison.metrics.begin(), comparison.metrics.end(), [](const auto& row) { return row.name == "mfu"; });
  ASSERT_NE(mfu, comparison.metrics.end());
  EXPECT_EQ(mfu->a, 0.25);
  EXPECT_EQ(mfu->b, std::nullopt);
  EXPECT_THAT(to_table(comparison), ::testing::ContainsRegex("mfu +25[.]0 % +-\n"));
}

TEST(Compare, AMetricThatOneResultLacksBreaksItsTolerance) {
  json with = result("simulated", 1, 1);
  with["metrics"]["contention_s"] = 0.5;
  EXPECT_FALSE(compare(read(with), read(result("estimated", 1, 1)), {parse_tolerance("contention_s=100%")}).ok());
}

TEST(Compare, ActionsByPassAndStage) {
  const present::ResultDocument estimated = read(result("estimated", 1, 1)), measured = read(result("measured", 1.5, 2));
  const Comparison comparison = compare(estimated, measured, {});
  // Compute F0 F1 B0 B1 and two hand-overs, counted at the receiver.
  ASSERT_EQ(comparison.classes.size(), 6u);
  for (const ComparedClass& row : comparison.classes) {
    EXPECT_EQ(row.count_a, 1);
    EXPECT_EQ(row.count_b, 1);
    if (row.lane == Lane::Receive) {
      EXPECT_DOUBLE_EQ(row.mean_a, 1);
      EXPECT_DOUBLE_EQ(row.mean_b, 2);
    } else if (row.name == "F" && row.stage == 1) {
      EXPECT_DOUBLE_EQ(row.mean_a, 2);
      EXPECT_DOUBLE_EQ(row.mean_b, 3);
      EXPECT_DOUBLE_EQ(row.total_difference, -1) << "predicted less measured";
    } else {
      EXPECT_DOUBLE_EQ(row.mean_a, row.mean_b);
    }
  }
  ASSERT_EQ(comparison.worst.size(), 4u);
  EXPECT_EQ(comparison.worst.front().action, "1F0");
  EXPECT_EQ(comparison.worst.front().device, 1);
}

// Predictions draw one of equal copies, a run measures all of them: what the prediction left out is left out of both.
TEST(Compare, CopiesThatAPredictionFoldsAreNoOtherPlan) {
  json folded = result("estimated", 1, 1), both = result("measured", 1, 1);
  for (json* document : {&folded, &both}) {
    json& spans = (*document)["timeline"];
    spans.erase(std::remove_if(spans.begin(), spans.end(), [](const json& row) { return row["device"] == 1; }), spans.end());
  }
  for (const json& row : json(both["timeline"])) {  // device 1 does what device 0 does
    both["timeline"].push_back(row);
    both["timeline"].back()["device"] = 1;
  }
  folded["memory"].erase(1);  // and was left out
  folded["memory"][0]["copies"] = {1};
  const present::ResultDocument predicted = read(folded), measured = read(both, "b.json");
  const Comparison comparison = compare(predicted, measured, {});
  ASSERT_EQ(comparison.classes.size(), 3u) << "F, B and the gradient that arrives, of device 0";
  for (const ComparedClass& row : comparison.classes) EXPECT_EQ(row.count_b, 1) << row.name;
  EXPECT_EQ(compare(measured, predicted, {}).classes.size(), 3u);
}

// One device with two folded replicas against a pipeline of three: the sizes are those of the plans, not of what both drew.
TEST(Compare, ReportsHowLargeDifferentPlansAre) {
  json replicas = result("estimated", 1, 1), pipeline = result("estimated", 1, 1);
  replicas["memory"].erase(1);
  json& spans = replicas["timeline"];
  spans.erase(std::remove_if(spans.begin(), spans.end(), [](const json& row) { return row["device"] == 1; }), spans.end());
  for (json* document : {&replicas, &pipeline})
    (*document)["metrics"]["per_device"].push_back({{"device", 2}, {"rank", 0}, {"peak_memory_bytes", 900}});
  pipeline["metrics"]["per_device"][2]["rank"] = 2;
  pipeline["memory"].push_back({{"device", 2}, {"parts", {{"parameters", 900}}}});
  pipeline["timeline"].push_back(span(2, "compute", "2F0", 0, 2, 0, 1));
  EXPECT_EQ(
      message_of([&] { compare(read(replicas), read(pipeline), {}); }),
      "these results are of different plans: A has 3 devices, 1 stages, 1 microbatches, 2 passes; B has 3 devices, 3 stages, "
      "1 microbatches, 5 passes; only B has 1F0 on device 1. Metrics alone can be compared");
}

TEST(Compare, IdleTimeHasACause) {
  const present::ResultDocument a = read(result("estimated", 1, 1)), b = read(result("measured", 1.5, 2));
  const Comparison comparison = compare(a, b, {});
  // A: device 0 idles from 2 to 9 for stage 1's gradient, of which the last second is transit; device 1 from 0 to 3 for the
  // activation, a second of it in transit, and from 8 to the end at 12.
  // B: f1 = 4, b1 = 7, sent at 10, b0 = 12, end = 15. Device 0 idles 2..12, device 1 0..4 and 10..15.
  struct Row {
    int device;
    const char* reason;
    int peer;
    double a_s, b_s, transit_a_s, transit_b_s;
  };
  const Row expected[] = {{0, "gradients of stage 1", 1, 7, 10, 1, 2},
                          {1, "the end of the step", -1, 4, 5, 0, 0},
                          {1, "activations of stage 0", 0, 3, 4, 1, 2}};
  ASSERT_EQ(comparison.waits.size(), std::size(expected));
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    const ComparedWait& found = comparison.waits[i];
    SCOPED_TRACE(found.reason);
    EXPECT_EQ(found.device, expected[i].device);
    EXPECT_EQ(found.reason, expected[i].reason);
    EXPECT_EQ(found.peer, expected[i].peer);
    EXPECT_DOUBLE_EQ(found.a, expected[i].a_s);
    EXPECT_DOUBLE_EQ(found.b, expected[i].b_s);
    EXPECT_DOUBLE_EQ(found.transit_a, expected[i].transit_a_s);
    EXPECT_DOUBLE_EQ(found.transit_b, expected[i].transit_b_s);
  }
}

TEST(Compare, WhatWasReadIsWhatWasWritten) {
  const present::ResultDocument document = read(result("measured", 1, 1));
  EXPECT_EQ(document.kind, TimelineKind::Measured);
  ASSERT_EQ(document.timeline.spans.size(), 8u);
  // An action's pass, stage and microbatch, and memory curves.
  EXPECT_EQ(document.timeline.spans[0].action.kind, ActionKind::F);
  ASSERT_EQ(document.timeline.devices.size(), 2u);
  ASSERT_EQ(document.timeline.devices[0].memory.size(), 2u);
  EXPECT_EQ(document.timeline.devices[0].memory[1].allocated, Bytes(1000));
  // The metrics of the timeline are those of any timeline: device 0 computes 5 of 12 s.
  EXPECT_DOUBLE_EQ(metrics(document.timeline).per_device[0].bubble_step, 1 - 5.0 / 12);
}

// A value of another type is a fault with its place.
TEST(ResultDocument, AFigureOfADeviceMayBeAbsentButIsNotText) {
  json document = result("measured", 1, 1);
  const present::ResultDocument older = read(document);
  EXPECT_EQ(older.per_device[1].memory_limit_bytes, 0);
  EXPECT_TRUE(older.per_device[1].fits);
  document["metrics"]["per_device"][1]["fits"] = 1;
  EXPECT_EQ(message_of([&] { read(document); }), "a.json: this result is broken: type must be boolean, but is number");
}

TEST(Compare, BothTimelinesInOneTrace) {
  const present::ResultDocument a = read(result("estimated", 1, 1)), b = read(result("measured", 1.5, 2));
  const json trace = json::parse(present::to_trace_json({{"A, estimated", &a.timeline}, {"B, measured", &b.timeline}}));
  std::map<int, std::string> names;
  std::map<int, int> slices;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") names[event["pid"]] = event["args"]["name"];
    if (event["ph"] == "X") ++slices[event["pid"]];
  }
  EXPECT_THAT(names, testing::ElementsAre(
                         testing::Pair(0, "A, estimated: device 0 (rank 0)"), testing::Pair(1, "A, estimated: device 1 (rank 1)"),
                         testing::Pair(2, "B, measured: device 0 (rank 0)"), testing::Pair(3, "B, measured: device 1 (rank 1)")));
  EXPECT_THAT(slices, testing::ElementsAre(testing::Pair(0, 4), testing::Pair(1, 4), testing::Pair(2, 4), testing::Pair(3, 4)));
}

TEST(Compare, TheJsonDocumentStatesTheSame) {
  const present::ResultDocument a = read(result("estimated", 1, 1)), b = read(result("measured", 1.5, 1), "b.json");
  const json document = json::parse(to_json(compare(a, b, {parse_tolerance("step_time_s=3%")})));
  EXPECT_EQ(document["schema"], "panpipe-comparison/1");
  EXPECT_EQ(document["reference"], "b");
  EXPECT_EQ(document["ok"], false);
  EXPECT_EQ(document["b"]["path"], "b.json");
  EXPECT_EQ(document["actions"].size(), 6u);
  EXPECT_EQ(document["idle"].size(), 3u);
  for (const json& row : document["metrics"]) EXPECT_EQ(row["ok"], row["metric"] != "step_time_s");
}

TEST(Compare, TheTableOfASmallComparison) {
  const present::ResultDocument a = read(result("estimated", 1, 1)), b = read(result("measured", 1.5, 1), "b.json");
  const std::string table = to_table(compare(a, b, {parse_tolerance("step_time_s=3%")}));
  EXPECT_THAT(table, HasSubstr("A  estimated  a.json  (small.yaml)\nB  measured   b.json  (small.yaml)\n"
                               "differences: A against B\n"));
  EXPECT_THAT(table, HasSubstr("step_time_s                       12 s        13 s      -7.7 %  broken: more than 3 %\n"));
  EXPECT_THAT(table, HasSubstr("F of stage 1                       2 s         3 s     -33.3 %      1    -1 s\n"));
  EXPECT_THAT(table, HasSubstr("device 0: gradients of stage 1, from device 1    7 s  8 s  1 s, 1 s\n"));
}

// 12 s predicted, 13 s measured: the interval holds it from 11 to 13.5 s, and not from 11 to 12.5 s.
TEST(Compare, ReportsHowSureThePredictionIsAndWhetherItHeld) {
  const present::ResultDocument measured = read(result("measured", 1.5, 1), "b.json");
  const auto estimated = [](double high) {
    json document = result("estimated", 1, 1);
    document["metrics"]["step_time_p10_s"] = 11;
    document["metrics"]["step_time_p50_s"] = 12;
    document["metrics"]["step_time_p90_s"] = high;
    document["evidence"] = {{"pieces", json::array()}, {"class", "dense, NVLink"}, {"limits", {"half of it: host"}}};
    return read(document);
  };
  const present::ResultDocument wide = estimated(13.5), narrow = estimated(12.5);
  EXPECT_THAT(
      to_table(compare(wide, measured, {})),
      HasSubstr(
          "A  estimated  a.json  (small.yaml)\n   80 % of runs are expected from 11 s to 13.5 s, half above 12 s; half of it: "
          "host\nB  measured   b.json  (small.yaml)\nthe measured step "
          "lies inside the interval that holds 80 % of runs\n"));
  EXPECT_THAT(to_table(compare(measured, narrow, {})), HasSubstr("the measured step lies outside the interval"));
  const json document = json::parse(to_json(compare(wide, measured, {})));
  EXPECT_EQ(document["inside"], true);
  EXPECT_EQ(document["a"]["evidence"]["class"], "dense, NVLink");
  EXPECT_FALSE(document["b"].contains("evidence"));
  EXPECT_TRUE(json::parse(to_json(compare(wide, narrow, {})))["inside"].is_null());  // nothing was measured
}

TEST(CompareFaults, ReportWhatIsWrong) {
  const present::ResultDocument a = read(result("estimated", 1, 1));
  json other = result("measured", 1, 1);
  other["timeline"].push_back(span(0, "compute", "0F1", 1, 0, 20, 21));
  json bare = result("measured", 1, 1);
  bare.erase("timeline");
  json odd = result("measured", 1, 1);
  odd["kind"] = "guessed";
  json broken = result("measured", 1, 1);
  broken.erase("metrics");
  json far = result("measured", 1, 1);
  far["timeline"][0]["device"] = std::int64_t{1} << 40;
  json lane = result("measured", 1, 1);
  lane["timeline"][0]["lane"] = "fast";
  json part = result("measured", 1, 1);
  part["memory"][0]["parts"]["attic"] = 1;
  const std::pair<std::function<void()>, std::string> table[] = {
      {[&] { present::parse_result("{", "x.json"); }, "this is not JSON: unexpected end of input; expected string literal"},
      {[&] { read(far); }, "a.json: this result is broken: 1099511627776 is not in the range 0 to 10000000"},
      {[&] { present::parse_result("[1]", "x.json"); },
       "x.json: this is a JSON array, not a result of panpipe estimate, simulate or run"},
      {[&] { present::parse_result(R"({"schema": "panpipe-plan/1"})", "x.json"); },
       "x.json: this is a document of schema 'panpipe-plan/1', not a result of panpipe estimate, simulate or run"},
      {[&] { present::parse_result(R"({"traceEvents": []})", "x.json"); },
       "x.json: this is a trace, not a result of panpipe estimate, simulate or run"},
      {[&] { read(odd); }, "a.json: kind is estimated, simulated or measured, not 'guessed'"},
      {[&] { read(broken); }, "a.json: this result is broken: key 'metrics' not found"},
      {[&] { read(lane); }, "a.json: timeline: there is no lane 'fast'"},
      {[&] { read(part); }, "a.json: memory: there is no part 'attic'"},
      {[&] { present::read_result("/nowhere.json"); }, "/nowhere.json: this file does not exist"},
      {[&] { present::read_result("/proc/self/fd"); },
       "/proc/self/fd: this folder holds no result.json; give a folder written with -o"},
      {[&] { compare(a, read(bare, "b.json"), {}); },
       "b.json: this result has no timeline, so its actions cannot be compared: make it with the timeline, or compare metrics "
       "alone"},
      {[&] { compare(a, read(other), {}); },
       "these results are of different plans: A has 2 devices, 2 stages, 1 microbatches, 4 passes; B has 2 devices, 2 stages, 2 "
       "microbatches, 5 passes; only B has 0F1 on device 0. Metrics alone can be compared"},
      {[&] { compare(a, a, {parse_tolerance("step_tim_s=3%")}); },
       "these results have no metric 'step_tim_s', did you mean 'step_time_s'?"},
      {[&] { parse_tolerance("step_time_s"); },
       "'step_time_s' is no limit of a metric: write METRIC=3% or METRIC=0.02, for example step_time_s=3%"},
      {[&] { parse_tolerance("step_time_s=-3%"); },
       "'step_time_s=-3%' is no limit of a metric: write METRIC=3% or METRIC=0.02, for example "
       "step_time_s=3%"},
      {[&] { parse_tolerance("step_time_s=soon"); },
       "'step_time_s=soon' is no limit of a metric: write METRIC=3% or METRIC=0.02, for example "
       "step_time_s=3%"},
      {[&] { parse_tolerance("bubble_step=5"); },
       "bubble_step is a share, and 5 would be 500 % of the whole; write bubble_step=5% for a "
       "difference of that "
       "many per cent"},
  };
  for (const auto& [call, message] : table) EXPECT_EQ(message_of(call), message);
  // Without timeline the metrics remain.
  EXPECT_NO_THROW(compare(a, read(bare), {}, true));
  EXPECT_TRUE(compare(a, read(other), {}, true).classes.empty());
}

}  // namespace
}  // namespace panpipe::study
