#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "tests/costmodel/timeline/small_step.hpp"

namespace panpipe {
namespace {

// "0 send 0SEND_F0 2.5-3", times in ms.
std::string text_of(const Span& span) {
  return fmt::format("{} {} {} {:g}-{:g}", span.device, name_of(span.lane),
                     span.label.empty() ? to_text(span.action) : span.label, span.start.base() * 1e3, span.end.base() * 1e3);
}

TEST(Timeline, HasASpanForEverythingOnTheFirstCopyOfEachRank) {
  const Timeline timeline = estimate(testing::small_step());
  std::vector<std::string> spans;
  for (const Span& span : timeline.spans) spans.push_back(text_of(span));
  EXPECT_THAT(spans, ::testing::ElementsAre("0 compute 0F0 0-2.5", "0 compute 0B0 10-14", "0 compute OPT 15-16",
                                            "0 tensor all_reduce 1-1.5", "0 send 0SEND_F0 2.5-3", "0 receive 0RECV_B0 9.5-10",
                                            "0 data all_reduce 14-15", "2 compute 1F0 3-5.5", "2 compute 1B0 5.5-9.5",
                                            "2 compute OPT 9.5-10.5", "2 tensor all_reduce 4-4.5", "2 send 1SEND_B0 9.5-10",
                                            "2 receive 1RECV_F0 2.5-3"));
  EXPECT_NEAR(timeline.step_time.base(), 16e-3, 1e-15);
}

TEST(Timeline, SpansKnowBytesPeersAndTimesAlone) {
  const Timeline timeline = estimate(testing::small_step());
  const Span &pass = timeline.spans[0], &tensor = timeline.spans[3], &send = timeline.spans[4], &receive = timeline.spans[12];
  EXPECT_NEAR(pass.waiting.base(), 0.5e-3, 1e-15);
  EXPECT_EQ(tensor.bytes, mib(8));
  EXPECT_EQ(send.bytes, mib(4));
  EXPECT_EQ(send.peer, 2);
  EXPECT_EQ(receive.peer, 0);
  EXPECT_EQ(send.flow_id, receive.flow_id);
  EXPECT_NEAR(send.alone.base(), 0.5e-3, 1e-15);
}

TEST(Timeline, CopiesOfARankAreFolded) {
  const Timeline timeline = estimate(testing::small_step());
  ASSERT_EQ(timeline.devices.size(), 4u);
  const int same_as[] = {-1, 0, -1, 2}, ranks[] = {0, 0, 1, 1};
  for (int d = 0; d < 4; ++d) {
    const DeviceTimeline& device = timeline.devices[d];
    EXPECT_EQ(device.device, d);
    EXPECT_EQ(device.rank, ranks[d]);
    EXPECT_EQ(device.same_as, same_as[d]);
    EXPECT_EQ(device.memory.empty(), same_as[d] >= 0);
    EXPECT_EQ(device.peak, timeline.devices[0].peak);
  }
}

// A pass that took longer than on idle links, because its collective did.
TEST(Timeline, CollectivesAndWaitingAreThoseOfTheTimes) {
  const TaskGraph graph = testing::small_step();
  TaskTimes times = estimate_times(graph, true);
  times.task_end[0] += Ticks(0.25 * testing::kMs);  // 0F0 0..2.75
  times.task_waiting[0] += Ticks(0.25 * testing::kMs);
  times.collectives[0].end += Ticks(0.25 * testing::kMs);
  const Timeline timeline = make_timeline(graph, times, TimelineKind::Simulated);
  EXPECT_NEAR(timeline.spans[0].waiting.base(), 0.75e-3, 1e-15);
  EXPECT_EQ(text_of(timeline.spans[3]), "0 tensor all_reduce 1-1.75");
  EXPECT_NEAR(timeline.spans[3].alone.base(), 0.5e-3, 1e-15);
}

// A collective of 1.5 ms with 1 ms of compute that does not wait for it; what comes after waits for both.
TEST(Timeline, CollectivesOverlapFreeCompute) {
  TaskGraph graph = testing::small_step();
  const Ticks ms(testing::kMs);
  graph.programs[0].first_step = static_cast<std::int32_t>(graph.steps.size());
  graph.programs[0].steps = 5;  // compute 0..1, collective 1..2.5 and compute 1..2, compute 2.5..3.5, collective 3.5..4
  const ProgramStep steps[] = {{.time = ms},
                               {.collective = true, .flow = 0, .time = ms * 1.5},
                               {.free = true, .time = ms},
                               {.time = ms},
                               {.collective = true, .flow = 0, .time = ms * 0.5}};
  graph.steps.insert(graph.steps.end(), std::begin(steps), std::end(steps));
  graph.programs[0].duration = ms * 4;
  const Timeline timeline = estimate(graph);
  EXPECT_EQ(text_of(timeline.spans[3]), "0 tensor all_reduce 1-2.5");
  EXPECT_EQ(text_of(timeline.spans[4]), "0 tensor all_reduce 3.5-4");
}

TEST(Timeline, TimesMustBeOfTheGraph) {
  const TaskGraph graph = testing::small_step();
  EXPECT_THROW(make_timeline(graph, TaskTimes{}, TimelineKind::Estimated), InternalError);
}

}  // namespace
}  // namespace panpipe
