#include "costmodel/timeline/memory_curve.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/costmodel/timeline/small_step.hpp"

namespace panpipe {
namespace {

std::int64_t sum(const std::vector<MemoryPart>& parts) {
  std::int64_t total = 0;
  for (const MemoryPart& part : parts) total += part.bytes.base();
  return total;
}

TEST(MemoryCurve, StandsOnTheStaticPartsAndCountsTemporaries) {
  const Timeline timeline = estimate(testing::small_step());
  const DeviceTimeline& device = timeline.devices[2];
  // In MiB: context 200 and 1.1 x (parameters 400 + dynamic). Rank 1: F takes 100 and 30 temporary from 3 to 5.5 ms, B 50
  // temporary from 5.5 to 9.5 ms and gives 100 back: 640, 783, 805 (the forward's temporaries are gone before), 640.
  const std::vector<std::pair<double, double>> expected{{0, 640}, {3, 783}, {5.5, 805}, {9.5, 640}};
  const std::vector<MemorySample>& samples = device.memory;
  ASSERT_EQ(samples.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(samples[i].at.base() * 1e3, expected[i].first, 1e-9);
    EXPECT_NEAR(static_cast<double>(samples[i].allocated.base()) / (1 << 20), expected[i].second, 0.01);
  }
  EXPECT_NEAR(static_cast<double>(device.peak.base()) / (1 << 20), 805, 0.01);
  EXPECT_EQ(device.limit, mib(800));
}

TEST(MemoryCurve, PartsOfThePeakAddUpToIt) {
  const Timeline timeline = estimate(testing::small_step());
  const DeviceTimeline& device = timeline.devices[0];
  ASSERT_EQ(device.peak_parts.size(), 5u);
  EXPECT_EQ(device.peak_parts[0].use, MemoryUse::Parameters);
  EXPECT_EQ(device.peak_parts[1].use, MemoryUse::Context);
  EXPECT_EQ(device.peak_parts[2].use, MemoryUse::Activations);
  EXPECT_EQ(device.peak_parts[2].bytes, mib(100));
  EXPECT_EQ(device.peak_parts[3].use, MemoryUse::Temporary);
  EXPECT_EQ(device.peak_parts[3].bytes, mib(50));
  EXPECT_EQ(device.peak_parts[4].use, MemoryUse::Fragmentation);  // 0.1 x (400 + 100 + 50)
  EXPECT_EQ(device.peak_parts[4].bytes, mib(55));
  EXPECT_EQ(sum(device.peak_parts), device.peak.base());
  EXPECT_EQ(device.static_parts.size(), 2u);
}

TEST(MemoryCurve, OfOneForwardOneBackwardHoldsAtMostTheWarmUp) {
  // Rank r of p holds min(p - r, m) microbatches (Narayanan et al., PipeDream-2BW and Megatron-LM: 1F1B's in-flight
  // microbatches).
  const int p = 4, m = 8;
  const PipelineOrder order = pack(make_schedule("1f1b", p, m));
  TaskGraph graph = testing::graph_of(order, testing::even_tables(p, 10, 10, 10, 0));
  for (Task& task : graph.tasks) (task.action.kind == ActionKind::F ? task.take : task.give) = Bytes(1000);
  const Timeline timeline = estimate(graph);
  for (int r = 0; r < p; ++r) {
    const DeviceTimeline& device = timeline.devices[r];
    EXPECT_EQ(device.peak, Bytes(1000 * (p - r)));
    EXPECT_EQ(device.memory.back().allocated, Bytes(0));
    EXPECT_TRUE(std::is_sorted(device.memory.begin(), device.memory.end(),
                               [](const MemorySample& a, const MemorySample& b) { return a.at < b.at; }));
  }
}

TEST(MemoryCurve, WhatOneLaneGivesAnotherMayTakeAtTheSameInstant) {
  testing::GraphBuilder g(1);
  const int p = g.program(10);
  const int a = g.pass(0, ActionKind::F, 0, 0, p);
  Task copy;
  copy.kind = TaskKind::Reload;
  copy.lane = Lane::Copy;
  copy.program = p;
  copy.take = Bytes(70);
  const int c = g.add(copy);
  g.needs(c, a);
  g.task(a).take = Bytes(50);
  g.task(a).give = Bytes(50);
  const Timeline timeline = estimate(g.build());
  EXPECT_EQ(timeline.devices[0].peak, Bytes(70));  // not 120
}

}  // namespace
}  // namespace panpipe
