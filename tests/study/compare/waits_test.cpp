// What devices wait for, and whose message arrives, among many spans.
#include "study/compare/waits.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "study/compare/messages.hpp"

namespace panpipe::study {
namespace {

// Two devices, so many microbatches that a look at every span for every gap would not come to an end: each gap has its cause.
// Device 0: F of 1 s from 2 k on, its gradient of 0.5 s from 2 k + 1.5. Device 1: B of 0.5 s from 2 k + 1.
TEST(Waits, OfManyMicrobatches) {
  constexpr int kMicrobatches = 100'000;
  Timeline timeline;
  const auto add = [&](int device, Lane lane, ActionKind kind, int stage, int microbatch, double start, double end) {
    Span span;
    span.device = device;
    span.lane = lane;
    span.action.kind = kind;
    span.action.stage = stage;
    span.action.microbatch = microbatch;
    span.start = seconds(start);
    span.end = seconds(end);
    timeline.spans.push_back(span);
  };
  for (const int device : {0, 1})
    for (const Lane lane : {Lane::Compute, Lane::Send, Lane::Receive, Lane::Data})
      for (int k = 0; k < kMicrobatches; ++k) {
        const double at = 2 * k;
        if (lane == Lane::Compute && device == 0) add(0, lane, ActionKind::F, 0, k, at, at + 1);
        if (lane == Lane::Compute && device == 1) add(1, lane, ActionKind::B, 1, k, at + 1, at + 1.5);
        if (lane == Lane::Send && device == 0) add(0, lane, ActionKind::SendB, 2, k, at + 0.75, at + 1);
        if (lane == Lane::Receive && device == 1) add(1, lane, ActionKind::RecvB, 1, k, at + 0.75, at + 1);
        if (lane == Lane::Data && device == 0) add(0, lane, ActionKind::ReduceGrad, 0, k, at + 1.5, at + 1.75);
      }
  timeline.step_time = seconds(2 * kMicrobatches);
  const auto waits = waits_of(timeline);
  const Wait gradients = waits.at({1, "gradients of stage 2", 0}), sums = waits.at({0, "sums over replicas", -1});
  EXPECT_DOUBLE_EQ(gradients.idle, 1.5 * kMicrobatches - 0.5);
  EXPECT_DOUBLE_EQ(gradients.transit, 0.25 * kMicrobatches);
  EXPECT_DOUBLE_EQ(sums.idle, 0.25 * kMicrobatches);
  EXPECT_DOUBLE_EQ(waits.at({0, "its own host", -1}).idle, 0.75 * (kMicrobatches - 1));
}

// The nearest of all, as a look at every pair finds it.
TEST(Messages, SendersAreTheNearestInTime) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 50; ++round) {
    Timeline timeline;
    for (int i = 0; i < 120; ++i) {
      Span span;
      span.device = below(3);
      const bool send = below(2) == 0;
      span.lane = send ? Lane::Send : Lane::Receive;
      span.action.kind =
          below(2) == 0 ? (send ? ActionKind::SendF : ActionKind::RecvF) : (send ? ActionKind::SendB : ActionKind::RecvB);
      span.action.microbatch = below(2);
      span.bytes = Bytes(64 * below(2));
      span.start = seconds(below(12));  // whole numbers: ties come up
      span.end = span.start + seconds(below(4));
      timeline.spans.push_back(span);
    }
    const Messages messages(timeline);
    const auto forward = [](const Span& s) { return s.action.kind == ActionKind::SendF || s.action.kind == ActionKind::RecvF; };
    for (const Span& receive : timeline.spans) {
      if (receive.lane != Lane::Receive) continue;
      const Span* expected = nullptr;
      const auto distance = [&](const Span& s) {
        return std::abs((s.end - receive.end).base()) + std::abs((s.start - receive.start).base());
      };
      for (const Span& send : timeline.spans)
        if (send.lane == Lane::Send && send.device != receive.device && forward(send) == forward(receive) &&
            send.action.microbatch == receive.action.microbatch && send.bytes == receive.bytes &&
            (!expected || distance(send) < distance(*expected)))
          expected = &send;
      ASSERT_EQ(messages.sender_of(receive), expected);
    }
  }
}

}  // namespace
}  // namespace panpipe::study
