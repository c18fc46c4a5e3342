#include "costmodel/timeline/memory_room.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "present/result/result.hpp"
#include "tests/costmodel/timeline/small_step.hpp"

namespace panpipe {
namespace {

TEST(MemoryRoom, TheNeedStandsNextToTheLimit) {
  EXPECT_EQ(need_of_limit(mib(512), gib(2)), "512.00 MiB of 2.00 GiB usable, 25 %");
  EXPECT_EQ(need_of_limit(Bytes(999'999), Bytes(1'000'000)), "976.56 KiB of 976.56 KiB usable, 99 %");  // fits: not 100 %
  EXPECT_EQ(need_of_limit(gib(2), gib(2)), "2.00 GiB of 2.00 GiB usable, 100 %");
  EXPECT_EQ(need_of_limit(gib(2) + Bytes(1), gib(2)), "2.00 GiB of 2.00 GiB usable, 101 %, 1 B too much");
}

TEST(MemoryRoom, LessThanTheModelsErrorIsCalledThat) {
  EXPECT_EQ(doubtful_room(mib(1000), mib(1049)), "49.00 MiB are left, less than the memory model's own error (5 %)");
  EXPECT_EQ(doubtful_room(mib(1000), mib(1050)), "");
  EXPECT_EQ(doubtful_room(mib(1000), mib(951)), "49.00 MiB are too much, less than the memory model's own error (5 %)");
  EXPECT_EQ(doubtful_room(mib(1000), mib(950)), "");
}

// Limits around the need of the fuller rank; what was measured has no model's error.
TEST(MemoryRoom, TheTableStatesHowMuchIsLeft) {
  TaskGraph graph = testing::small_step();
  const Bytes need = fullest_device(estimate(graph).devices)->peak;
  const auto table = [&](Bytes limit, TimelineKind kind = TimelineKind::Estimated) {
    for (RankMemory& memory : graph.memory) memory.limit = limit;
    Timeline timeline = estimate(graph);
    timeline.kind = kind;
    return present::to_table(timeline, metrics(timeline), false);
  };
  EXPECT_THAT(table(2 * need),
              ::testing::AllOf(::testing::HasSubstr(" usable, 50 %\n  "), Not(::testing::HasSubstr("own error"))));
  const std::string narrow = " usable, 99 %\n        1.00 MiB are left, less than the memory model's own error (5 %)\n  ";
  EXPECT_THAT(table(need + mib(1)), ::testing::HasSubstr(narrow));
  EXPECT_THAT(table(need + mib(1), TimelineKind::Measured), Not(::testing::HasSubstr("own error")));
}

// Devices of different size: the share is that of the fullest, which need not be the one with the largest peak.
TEST(MemoryRoom, MetricsHoldTheLimitOfTheFullestDevice) {
  TaskGraph graph = testing::small_step();
  for (RankMemory& memory : graph.memory) memory.limit = gib(16);
  graph.memory[1].limit = gib(1);
  const Timeline timeline = estimate(graph);
  const Metrics figures = metrics(timeline);
  EXPECT_EQ(figures.memory_limit_bytes, static_cast<double>(gib(1).base()));
  EXPECT_EQ(figures.memory_share, figures.per_device[2].peak_memory_bytes / figures.memory_limit_bytes);
  EXPECT_EQ(figures.per_device[0].memory_limit_bytes, static_cast<double>(gib(16).base()));
}

}  // namespace
}  // namespace panpipe
