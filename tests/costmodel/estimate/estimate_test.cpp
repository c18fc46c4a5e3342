// From a graph to a timeline and its figures.
#include "costmodel/estimate/estimate.hpp"

#include <gtest/gtest.h>

#include "present/result/result.hpp"
#include "tests/costmodel/estimate/pipeline_graph.hpp"

namespace panpipe {
namespace {

Timeline even_timeline(const char* family, int p, int m, double delay = 0) {
  const PipelineOrder order = pack(make_schedule(family, p, m));
  // 1 ms forward, 1 + 1 ms backward, in ticks.
  return estimate(testing::graph_of(order, testing::even_tables(order.stages, 1e9, 1e9, 1e9, delay)));
}

TEST(Estimate, BubbleOfOneForwardOneBackward) {
  // Idle (p - 1) of (m + p - 1) slots on every rank.
  for (const auto& [p, m] : {std::pair{1, 1}, {2, 4}, {4, 8}, {8, 64}}) {
    const Metrics result = metrics(even_timeline("1f1b", p, m));
    EXPECT_NEAR(result.step_time_s, (m + p - 1) * 3e-3, 1e-12);
    EXPECT_NEAR(result.bubble_step, (p - 1.0) / (m + p - 1), 1e-12);
    EXPECT_NEAR(result.compute_s, m * 3e-3, 1e-12);
    EXPECT_EQ(result.exposed_communication_s, 0);
  }
}

TEST(Estimate, TransferTimeIsExposedWhereRanksWait) {
  // p2 m1: 0F0 0..1 ms, transfer 0.5, 1F0 1.5..2.5, 1B0 2.5..4.5, transfer 0.5, 0B0 5..7. Each rank waits for each transfer.
  const Timeline timeline = even_timeline("1f1b", 2, 1, 5e8);
  const Metrics result = metrics(timeline);
  EXPECT_NEAR(result.step_time_s, 7e-3, 1e-15);
  EXPECT_NEAR(result.exposed_communication_s, 1e-3, 1e-15);
  EXPECT_EQ(timeline.kind, TimelineKind::Estimated);
}

TEST(Estimate, TwiceTheSameIsTheSameBytes) {
  present::ResultContext context;
  context.with_clock = false;
  std::string first;
  for (int i = 0; i < 2; ++i) {
    const Timeline timeline = even_timeline("zb-h1", 4, 8, 1e7);
    const std::string text = to_result_json(timeline, metrics(timeline), context, true) + present::to_trace_json(timeline);
    if (i == 0) first = text;
    EXPECT_EQ(text, first);
  }
}

TEST(Estimate, AnEmptyGraphTakesNoTime) {
  const Timeline timeline = estimate(testing::GraphBuilder(1).build());
  EXPECT_EQ(timeline.step_time, Duration(0));
  EXPECT_EQ(metrics(timeline).bubble_step, 0);
}

}  // namespace
}  // namespace panpipe
