#include "validation/waits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace panpipe {
namespace {

// Shorter gaps are rounding and the clock's own reading.
constexpr double kShortestGap = 1e-7;

struct Lanes {
  std::vector<const Span*> compute, receives, sums;
};

// The transfer that brought an action's last input: a forward's activations, a backward's gradients.
const Span* last_input(const Lanes& lanes, const Action& action) {
  const bool forward = action.kind == ActionKind::F;
  if (!forward && action.kind != ActionKind::B && action.kind != ActionKind::I) return nullptr;
  const ActionKind wanted = forward ? ActionKind::RecvF : ActionKind::RecvB;
  const Span* last = nullptr;
  for (const Span* receive : lanes.receives) {
    const Action& found = receive->action;
    if (found.kind != wanted || found.stage != action.stage || found.microbatch != action.microbatch ||
        found.split != action.split)
      continue;
    if (last == nullptr || receive->end > last->end) last = receive;
  }
  return last;
}

// The other end: the send of the same kind and microbatch that ended nearest to the receive's end.
const Span* sender_of(const Timeline& timeline, const Span& receive) {
  const ActionKind wanted = receive.action.kind == ActionKind::RecvF ? ActionKind::SendF : ActionKind::SendB;
  const Span* nearest = nullptr;
  for (const Span& send : timeline.spans) {
    if (send.lane != Lane::Send || send.action.kind != wanted || send.device == receive.device) continue;
    if (send.action.microbatch != receive.action.microbatch || send.bytes != receive.bytes) continue;
    const auto distance = [&](const Span& s) {
      return std::abs((s.end - receive.end).base()) + std::abs((s.start - receive.start).base());
    };
    if (nearest == nullptr || distance(send) < distance(*nearest)) nearest = &send;
  }
  return nearest;
}

double overlap(const Span& span, double from, double to) {
  return std::max(0.0, std::min(span.end.base(), to) - std::max(span.start.base(), from));
}

class Explainer {
 public:
  explicit Explainer(const Timeline& timeline) : timeline_(timeline) {
    for (const Span& span : timeline.spans) {
      Lanes& lanes = devices_[span.device];
      if (span.lane == Lane::Compute) lanes.compute.push_back(&span);
      if (span.lane == Lane::Receive) lanes.receives.push_back(&span);
      if (span.lane == Lane::Data) lanes.sums.push_back(&span);
    }
  }

  std::map<WaitKey, Wait> explain() {
    for (const auto& [device, lanes] : devices_) {
      double free = 0;  // the lane has been idle since
      for (const Span* span : lanes.compute) {
        add_gap(device, lanes, free, span);
        free = std::max(free, span->end.base());
      }
      add_gap(device, lanes, free, nullptr);
    }
    return std::move(waits_);
  }

 private:
  void add_gap(std::int32_t device, const Lanes& lanes, double from, const Span* next) {
    const double to = next ? next->start.base() : timeline_.step_time.base();
    if (to - from < kShortestGap) return;
    if (next) {
      if (const Span* input = last_input(lanes, next->action); input && input->end.base() > from) {
        add_transfer(device, *input, from, to);
        return;
      }
    }
    double summing = 0;
    for (const Span* sum : lanes.sums) summing += overlap(*sum, from, to);
    summing = std::min(summing, to - from);
    if (summing > 0) add(device, "sums over replicas", -1, summing, summing);
    const char* rest = !next ? "the end of the step" : from == 0 ? "the start of the step" : "its own host";
    if (to - from - summing >= kShortestGap) add(device, rest, -1, to - from - summing, 0);
  }

  void add_transfer(std::int32_t device, const Span& input, double from, double to) {
    const Span* send = sender_of(timeline_, input);
    const bool activations = input.action.kind == ActionKind::RecvF;
    std::string reason = activations ? "activations" : "gradients";
    if (send) reason += fmt::format(" of stage {}", send->action.stage);
    // What passes between the arrival and the start is the device's own.
    const double until = std::min(to, input.end.base());
    add(device, reason, send ? send->device : -1, until - from, overlap(input, from, until));
    if (to - until >= kShortestGap) add(device, "its own host", -1, to - until, 0);
  }

  void add(std::int32_t device, const std::string& reason, std::int32_t peer, double idle, double transit) {
    Wait& wait = waits_[{device, reason, peer}];
    wait.idle += idle;
    wait.transit += transit;
  }

  const Timeline& timeline_;
  std::map<std::int32_t, Lanes> devices_;
  std::map<WaitKey, Wait> waits_;
};

}  // namespace

std::map<WaitKey, Wait> waits_of(const Timeline& timeline) { return Explainer(timeline).explain(); }

}  // namespace panpipe
