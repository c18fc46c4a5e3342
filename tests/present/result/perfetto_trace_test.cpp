#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "present/result/result.hpp"
#include "tests/costmodel/timeline/small_step.hpp"

namespace panpipe::present {
namespace {

using nlohmann::json;

// Rules of every trace: times sorted, lengths not negative, nothing overlapping on a track, arrows in pairs that go forward.
void check_trace(const std::string& text) {
  const json trace = json::parse(text);
  double last = 0;
  std::map<std::pair<int, int>, std::int64_t> track_end;
  std::set<std::pair<int, int>> named;
  std::map<int, double> tails;
  std::size_t heads = 0;
  for (const json& event : trace["traceEvents"]) {
    const std::string ph = event["ph"];
    const double ts = event["ts"];
    ASSERT_GE(ts, last);
    last = ts;
    const std::pair<int, int> track{event["pid"], event["tid"]};
    if (ph == "M" && event["name"] == "thread_name") named.insert(track);
    if (ph == "X") {
      const auto start = std::llround(ts * 1e3), length = std::llround(event["dur"].get<double>() * 1e3);
      ASSERT_GE(length, 0);
      ASSERT_GE(start, track_end[track]);
      track_end[track] = start + length;
      ASSERT_TRUE(named.count(track));
    }
    if (ph == "s") {
      ASSERT_TRUE(tails.emplace(event["id"], ts).second);
    }
    if (ph == "f") {
      ASSERT_TRUE(tails.count(event["id"]));
      ASSERT_GE(ts, tails[event["id"]]);
      EXPECT_EQ(event["bp"], "e");
      ++heads;
    }
  }
  EXPECT_EQ(heads, tails.size());
}

TEST(Trace, OfTheSmallStep) {
  const std::string text = to_trace_json(estimate(testing::small_step()));
  check_trace(text);
  const json trace = json::parse(text);
  EXPECT_EQ(trace["displayTimeUnit"], "ms");
  std::map<std::string, int> kinds;
  std::set<int> processes;
  for (const json& event : trace["traceEvents"]) {
    ++kinds[event["ph"]];
    processes.insert(event["pid"].get<int>());
    if (event["name"] == "process_name" && event["pid"] == 2) {
      EXPECT_EQ(event["args"]["name"], "device 2 (rank 1)");
    }
    if (event["ph"] == "X" && event["pid"] == 0 && event["name"] == "ncclDevKernel_AllReduce_Sum" &&
        event["args"].contains("microbatch")) {
      EXPECT_EQ(event["cat"], "kernel");
      EXPECT_EQ(event["ts"], 1000.0);  // us
      EXPECT_EQ(event["dur"], 500.0);
      EXPECT_EQ(event["args"]["bytes"], mib(8).base());
      EXPECT_EQ(event["args"]["stage"], 0);
    }
  }
  EXPECT_EQ(processes, (std::set<int>{0, 2}));  // devices 1 and 3 are copies
  EXPECT_EQ(kinds["X"], 13);
  EXPECT_EQ(kinds["s"], 2);
  EXPECT_EQ(kinds["f"], 2);
  EXPECT_EQ(kinds["C"], 8);  // four memory samples on each of two devices
}

TEST(Trace, TimesBeforeTheStepBegan) {
  Timeline timeline;
  timeline.devices.emplace_back();
  timeline.devices.back().memory = {{micros(-41.771), Bytes(8)}, {micros(-0.25), Bytes(4)}, {micros(2), Bytes(6)}};
  std::vector<double> at;
  const json trace = json::parse(to_trace_json(timeline));
  for (const json& event : trace["traceEvents"])
    if (event["ph"] == "C") at.push_back(event["ts"]);
  EXPECT_EQ(at, (std::vector<double>{-41.771, -0.25, 2}));
}

TEST(Trace, SpansThatOverlapOnALaneGetATrackMore) {
  Timeline timeline;
  DeviceTimeline device;
  timeline.devices.push_back(device);
  for (const auto& [start, end] : {std::pair{0.0, 3.0}, {1.0, 2.0}, {2.0, 4.0}, {2.5, 5.0}, {3.0, 6.0}}) {
    Span span;
    span.lane = Lane::Send;
    span.action.kind = ActionKind::SendF;
    span.start = micros(start);
    span.end = micros(end);
    timeline.spans.push_back(span);
  }
  const std::string text = to_trace_json(timeline);
  check_trace(text);
  const json trace = json::parse(text);
  std::vector<std::string> tracks;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] == "thread_name") tracks.push_back(event["args"]["name"]);
  }
  EXPECT_EQ(tracks, (std::vector<std::string>{"send", "send (2)", "send (3)"}));
}

TEST(Trace, OfSchedulesWithRandomCosts) {
  std::mt19937 random(3);
  for (const char* family : {"1f1b", "interleaved-1f1b", "zb-h1"}) {
    const PipelineOrder order = pack(make_schedule(family, 4, 8));
    for (int round = 0; round < 5; ++round) {
      testing::Tables tables = testing::random_tables(order.stages, random);
      for (double& cost : tables.costs) cost *= 1.37e5;  // lengths that are no whole nanoseconds
      for (double& delay : tables.delays) delay *= 3.3e4;
      check_trace(to_trace_json(estimate(testing::graph_of(order, tables))));
    }
  }
}

}  // namespace
}  // namespace panpipe::present
