#include <gtest/gtest.h>

#include <tuple>

#include "costmodel/timeline/step_time.hpp"
#include "tests/costmodel/timeline/small_step.hpp"

namespace panpipe {
namespace {

Span span(int device, Lane lane, double start_s, double end_s, double waiting_s = 0) {
  Span result;
  result.device = device;
  result.lane = lane;
  result.start = seconds(start_s);
  result.end = seconds(end_s);
  result.waiting = seconds(waiting_s);
  return result;
}

Timeline timeline_of(int devices, const std::vector<Span>& spans, double step_s) {
  Timeline timeline;
  for (int d = 0; d < devices; ++d) {
    DeviceTimeline device;
    device.device = device.rank = d;
    timeline.devices.push_back(device);
  }
  timeline.spans = spans;
  timeline.step_time = seconds(step_s);
  return timeline;
}

TEST(Metrics, OfTheSmallStep) {
  const Metrics result = metrics(estimate(testing::small_step()));
  // Step 16 ms. Rank 0 computes 2 + 4 + 1 = 7 ms, waits 0.5 in its forward, and idles while it sends (2.5-3), receives (9.5-10)
  // and reduces gradients (14-15): exposed 0.5 + 0.5 + 0.5 + 1 = 2.5. Busy with passes 7.5: bubble 8.5/16; first to last 16.
  ASSERT_EQ(result.per_device.size(), 4u);
  const DeviceMetrics &zero = result.per_device[0], &two = result.per_device[2];
  EXPECT_NEAR(zero.compute_s, 7e-3, 1e-12);
  EXPECT_NEAR(zero.exposed_communication_s, 2.5e-3, 1e-12);
  EXPECT_NEAR(zero.bubble_step, 8.5 / 16, 1e-12);
  EXPECT_NEAR(zero.bubble_span, 8.5 / 16, 1e-12);
  EXPECT_NEAR(zero.step_time_s, 16e-3, 1e-12);
  // Rank 1: exposed 0.5 in the forward and 0.5 receiving before it; its send runs during the optimizer. Ends at 10.5, begins
  // at 3.
  EXPECT_NEAR(two.compute_s, 7e-3, 1e-12);
  EXPECT_NEAR(two.exposed_communication_s, 1e-3, 1e-12);
  EXPECT_NEAR(two.bubble_step, 8.5 / 16, 1e-12);
  EXPECT_NEAR(two.bubble_span, 0, 1e-12);
  EXPECT_NEAR(two.step_time_s, 10.5e-3, 1e-12);
  EXPECT_NEAR(result.per_device[3].compute_s, two.compute_s, 0);  // a copy of device 2
  EXPECT_EQ(result.per_device[3].device, 3);
  // Means and sums: (2.5 + 1) / 2; idle in spans 8.5 of 16 + 7.5. 800 MiB are too few for 805.
  EXPECT_NEAR(result.exposed_communication_s, 1.75e-3, 1e-12);
  EXPECT_NEAR(result.bubble_step, 8.5 / 16, 1e-12);
  EXPECT_NEAR(result.bubble_span, 8.5 / 23.5, 1e-12);
  EXPECT_FALSE(result.fits);
  EXPECT_NEAR(result.samples_per_s, 4 / 16e-3, 1e-9);
  EXPECT_NEAR(result.mfu, 3.2e12 / (16e-3 * 4 * 100e12), 1e-12);  // 0.5
}

// Steps that roll follow each other at the longest of the ranks' own spans of computing: 0-4 and 2-7, for any times of sends.
TEST(StepPeriod, IsTheLongestRanksOwnSpan) {
  TaskGraph graph;
  TaskTimes times;
  const auto add = [&](int rank, Lane lane, double start, double end) {
    Task& task = graph.tasks.emplace_back();
    task.rank = rank;
    task.lane = lane;
    times.task_start.emplace_back(start);
    times.task_end.emplace_back(end);
  };
  EXPECT_EQ(step_period(graph, times), 0);
  for (const auto& [rank, start, end] : {std::tuple(0, 0, 1), {0, 3, 4}, {1, 2, 5}, {1, 5, 7}})
    add(rank, Lane::Compute, start, end);
  add(1, Lane::Send, 0, 9);
  EXPECT_EQ(step_period(graph, times), 5);
  // Rank 0 computes from 0 to the end, 16 ms.
  const TaskGraph small = testing::small_step();
  EXPECT_EQ(step_period(small, estimate_times(small)), 16 * testing::kMs);
  EXPECT_EQ(step_end(estimate_times(small)), Ticks(16 * testing::kMs));
}

TEST(Metrics, CommunicationCountsOnceAndOnlyDuringAnIdleComputeLane) {
  // Compute 0-2 and 5-6; communication 1-3 and 2.5-4 (overlapping), 5-7: idle with communication 2-4 and 6-7.
  const Metrics result =
      metrics(timeline_of(1,
                          {span(0, Lane::Compute, 0, 2), span(0, Lane::Compute, 5, 6), span(0, Lane::Tensor, 5, 7),
                           span(0, Lane::Send, 1, 3), span(0, Lane::Receive, 2.5, 4)},
                          8));
  EXPECT_DOUBLE_EQ(result.exposed_communication_s, 3);
  EXPECT_DOUBLE_EQ(result.compute_s, 3);
  EXPECT_DOUBLE_EQ(result.bubble_step, 5.0 / 8);
  EXPECT_DOUBLE_EQ(result.bubble_span, 0.5);
}

TEST(Metrics, CopiesAreNotCommunication) {
  const Metrics result = metrics(timeline_of(1, {span(0, Lane::Compute, 0, 1), span(0, Lane::Copy, 1, 2)}, 2));
  EXPECT_EQ(result.exposed_communication_s, 0);
  EXPECT_EQ(result.compute_s, 1);
}

TEST(Metrics, SpansThatOverlapOnTheComputeLaneCountOnce) {
  const Metrics result = metrics(timeline_of(1, {span(0, Lane::Compute, 0, 3), span(0, Lane::Compute, 1, 4)}, 4));
  EXPECT_EQ(result.compute_s, 4);
  EXPECT_EQ(result.bubble_step, 0);
}

TEST(Metrics, ADeviceWithoutSpansIdlesTheWholeStep) {
  const Metrics result = metrics(timeline_of(2, {span(0, Lane::Compute, 0, 4)}, 4));
  EXPECT_EQ(result.per_device[1].bubble_step, 1);
  EXPECT_EQ(result.bubble_step, 0.5);
  EXPECT_EQ(result.compute_s, 2);
}

TEST(Metrics, AnUnknownLimitFitsAndAnUnknownPeakHasNoMfu) {
  Timeline timeline = timeline_of(1, {span(0, Lane::Compute, 0, 1)}, 1);
  timeline.devices[0].peak = gib(1000);
  timeline.model_flops_per_step = flops(1e15);
  const Metrics result = metrics(timeline);
  EXPECT_TRUE(result.fits);
  EXPECT_EQ(result.mfu, 0);
  EXPECT_EQ(result.model_flops, 1e15);
}

// For any spans: compute, exposed communication and the rest fill the step.
TEST(Metrics, PartsNeverExceedTheStep) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> at(0, 1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Span> spans;
    for (const Lane lane : {Lane::Compute, Lane::Tensor, Lane::Send, Lane::Data}) {
      std::vector<Span> of_lane;
      for (int i = 0; i < 10; ++i) {
        const double a = at(random), b = std::min(1.0, a + 0.2 * at(random));
        of_lane.push_back(span(0, lane, a, b, lane == Lane::Compute ? 0.3 * (b - a) : 0));
      }
      std::sort(of_lane.begin(), of_lane.end(), [](const Span& a, const Span& b) { return a.start < b.start; });
      spans.insert(spans.end(), of_lane.begin(), of_lane.end());
    }
    const Metrics result = metrics(timeline_of(1, spans, 1));
    EXPECT_LE(result.compute_s + result.exposed_communication_s, 1 + 1e-12);
    EXPECT_GE(result.compute_s, 0);
    EXPECT_GE(result.exposed_communication_s, -1e-12);
    EXPECT_LE(result.bubble_span, result.bubble_step + 1e-12);
  }
}

}  // namespace
}  // namespace panpipe
