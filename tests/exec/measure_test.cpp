// Measuring: memory by the allocator's count, clocks of other hosts, both ends of a transfer, and a whole measured run.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "exec/engine/measure/clock_offset.hpp"
#include "exec/engine/measure/gather.hpp"
#include "exec/engine/measure/memory_account.hpp"
#include "exec/engine/run/run.hpp"
#include "exec/engine/transport/on_threads.hpp"

namespace panpipe::exec {
namespace {

TEST(MemoryAccount, CountsWhatAThreadAllocates) {
  MemoryAccount account;
  account.begin(16);
  {
    const at::Tensor kept = at::zeros({256}, at::kFloat);
    EXPECT_EQ(account.live(), 1024);
    { const at::Tensor gone = at::zeros({512}, at::kFloat); }
    EXPECT_EQ(account.live(), 1024);
    std::thread([] { const at::Tensor foreign = at::zeros({4096}, at::kFloat); }).join();
    EXPECT_EQ(account.live(), 1024) << "another thread's is not this rank's";
  }
  const MemoryAccount::Trace trace = account.end();
  EXPECT_EQ(trace.before, 0);
  EXPECT_EQ(trace.peak, 1024 + 2048);
  ASSERT_EQ(trace.samples.size(), 4u) << "two allocations, two releases";
  EXPECT_EQ(trace.samples[1].live, 3072);
  EXPECT_EQ(trace.samples[3].live, 0);
}

TEST(MemoryAccount, ATensorThatChangesHandsIsPaidForByItsNewOwner) {
  MemoryAccount mine;
  at::Tensor letter;
  std::int64_t theirs_before = 0, theirs_after = 0;
  std::thread([&] {
    MemoryAccount theirs;
    letter = at::ones({256}, at::kFloat);
    theirs_before = theirs.live();
    std::thread([&] {}).join();
    theirs_after = theirs.live();
  }).join();
  EXPECT_EQ(theirs_before, 1024);
  EXPECT_EQ(theirs_after, 1024);
  EXPECT_EQ(mine.live(), 0);
  charge_to_this_thread(letter);
  EXPECT_EQ(mine.live(), 1024);
  letter.reset();
  EXPECT_EQ(mine.live(), 0) << "freed after its first account was gone";
}

TEST(ClockOffset, OfAnotherHostIsFoundWithinItsError) {
  // Rank 2's clock shows 5 s more than rank 0's; rank 1 shares rank 0's.
  constexpr double kAhead = 5;
  std::vector<ClockReading> readings(3);
  on_threads(make_local_transports(3), [&](Transport& transport) {
    const bool ahead = transport.rank() == 2;
    const auto now = [ahead] {
      return std::chrono::duration<double>(Clock::now().time_since_epoch()).count() + (ahead ? kAhead : 0.0);
    };
    readings[static_cast<std::size_t>(transport.rank())] =
        read_clock_offset(transport, ahead ? "boot b" : "boot a", now, std::chrono::seconds(10));
  });
  EXPECT_EQ(readings[0].offset, 0);
  EXPECT_EQ(readings[1].offset, 0);
  EXPECT_EQ(readings[1].error, 0);
  EXPECT_GT(readings[2].error, 0);
  EXPECT_NEAR(readings[2].offset, kAhead, readings[2].error);
  EXPECT_LT(readings[2].error, 0.01);
}

TEST(ClockOffset, DriftsEvenlyBetweenTwoReadings) {
  const ClockReading first{100, 1.0, 0}, last{200, 2.0, 0};
  EXPECT_DOUBLE_EQ(offset_at(first, last, 150), 1.5);
  EXPECT_DOUBLE_EQ(offset_at(first, last, 50), 1.0);
  EXPECT_DOUBLE_EQ(offset_at(first, last, 250), 2.0);
}

Span half(int device, int peer, Lane lane, int tag, double start, double end) {
  Span span;
  span.device = device;
  span.peer = peer;
  span.lane = lane;
  span.flow_id = tag;
  span.start = seconds(start);
  span.end = seconds(end);
  return span;
}

TEST(JoinTransfers, BothEndsShareTheArrivalAndAFlow) {
  // Handed over at 2, posted long before, arrived at 5. The same tag the other way is another transfer. The third was posted
  // at 9, after it had arrived at 8. Nobody took the fourth.
  std::vector<Span> spans = {half(1, 0, Lane::Receive, 7, 0.5, 5), half(0, 1, Lane::Send, 7, 2, 2.1),
                             half(1, 0, Lane::Send, 7, 3, 3.1),    half(0, 1, Lane::Receive, 7, 3.5, 4),
                             half(0, 1, Lane::Send, 8, 6, 6.1),    half(1, 0, Lane::Receive, 8, 9, 8),
                             half(0, 1, Lane::Send, 9, 10, 10.1)};
  join_transfers(spans);
  std::map<int, std::vector<Span>> flows;
  for (const Span& span : spans) flows[span.flow_id].push_back(span);
  ASSERT_EQ(flows.size(), 4u) << "three transfers and the one that was not taken";
  EXPECT_EQ(flows[-1].size(), 1u);
  std::set<std::pair<double, double>> receives, sends;
  for (const Span& span : spans) {
    if (span.flow_id < 0) continue;
    (span.lane == Lane::Receive ? receives : sends).emplace(span.start.base(), span.end.base());
  }
  EXPECT_EQ(receives, (std::set<std::pair<double, double>>{{2, 5}, {3.5, 4}, {6, 8}}));
  EXPECT_EQ(sends, (std::set<std::pair<double, double>>{{2, 5}, {3, 4}, {6, 8}}));
}

class MeasuredRun : public testing::Test {
 protected:
  static Timeline run(int steps) {
    RunRequest request;
    request.scenario = "exec/small_gpt.yaml";
    request.steps = steps;
    request.warmup = 1;
    request.transport = "local";
    request.progress = false;
    const PreparedRun prepared(request);
    Timeline timeline;
    on_threads(make_local_transports(prepared.world_size()), [&](Transport& transport) {
      Timeline found = run_rank(prepared, transport);
      if (transport.rank() == 0) timeline = std::move(found);
    });
    return timeline;
  }
};

TEST_F(MeasuredRun, HasEveryActionAndTransferOnOneAxis) {
  const Timeline timeline = run(3);
  EXPECT_EQ(timeline.kind, TimelineKind::Measured);
  ASSERT_EQ(timeline.steps.size(), 3u);
  std::map<int, std::vector<Span>> flows;
  std::map<Lane, int> count;
  Duration last{0};
  for (const Span& span : timeline.spans) {
    EXPECT_LE(span.start, span.end);
    EXPECT_GE(span.start, Duration(0));
    last = std::max(last, span.end);
    if (span.lane == Lane::Compute && span.action.is_compute()) ++count[Lane::Compute];
    if (span.lane == Lane::Send || span.lane == Lane::Receive) {
      ++count[span.lane];
      EXPECT_EQ(span.bytes, Bytes(2 * 16 * 32 * 4)) << "microbatch x sequence x hidden floats";
      flows[span.flow_id].push_back(span);
    }
  }
  // 2 ranks x 4 microbatches x (F, B); 4 activations and 4 gradients.
  EXPECT_EQ(count[Lane::Compute], 16);
  EXPECT_EQ(count[Lane::Send], 8);
  EXPECT_EQ(count[Lane::Receive], 8);
  EXPECT_EQ(flows.size(), 8u);
  for (const auto& [id, ends] : flows) EXPECT_EQ(ends.size(), 2u) << id;
  EXPECT_NEAR(timeline.step_time.base(), last.base(), 1e-9);
  // The step is the median one; the figures state how far the others are.
  const Metrics figures = metrics(timeline);
  EXPECT_LE(figures.step_time_min_s, figures.step_time_s);
  EXPECT_GE(figures.step_time_max_s, figures.step_time_s);
}

TEST_F(MeasuredRun, MemoryAddsUpToThePeak) {
  const Timeline timeline = run(2);
  ASSERT_EQ(timeline.devices.size(), 2u);
  for (const DeviceTimeline& device : timeline.devices) {
    Bytes sum(0), parameters(0), optimizer(0);
    for (const MemoryPart& part : device.peak_parts) {
      sum += part.bytes;
      if (part.use == MemoryUse::Parameters) parameters = part.bytes;
      if (part.use == MemoryUse::Optimizer) optimizer = part.bytes;
    }
    EXPECT_EQ(sum, device.peak);
    EXPECT_EQ(device.allocated, device.peak) << "a CPU's allocator takes no segments";
    EXPECT_EQ(device.reserved, device.peak);
    EXPECT_GT(parameters, Bytes(0));
    EXPECT_GE(optimizer, 2 * parameters - Bytes(4096)) << "Adam's two moments";
    EXPECT_GT(device.memory.size(), 10u);
    for (const MemorySample& sample : device.memory) EXPECT_LE(sample.allocated, device.peak);
  }
}

}  // namespace
}  // namespace panpipe::exec
