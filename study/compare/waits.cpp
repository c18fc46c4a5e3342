#include "study/compare/waits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "costmodel/timeline/device_sums.hpp"
#include "study/compare/messages.hpp"

namespace panpipe::study {
namespace {

// Shorter gaps are rounding and the clock's own reading.
constexpr double kShortestGap = 1e-7;

struct Lanes {
  std::vector<const Span*> compute, sums;  // by start
  std::size_t first_sum = 0;               // those before it ended before the gap that is looked at
};

double overlap(const Span& span, double from, double to) {
  return std::max(0.0, std::min(span.end.base(), to) - std::max(span.start.base(), from));
}

class Explainer {
 public:
  explicit Explainer(const Timeline& timeline) : timeline_(timeline), messages_(timeline) {
    for (const Span& span : timeline.spans) {
      Lanes& lanes = devices_[span.device];
      if (span.lane == Lane::Compute) lanes.compute.push_back(&span);
      if (counted_lane(span.lane, span.action.kind) == Lane::Data) lanes.sums.push_back(&span);
    }
  }

  std::map<WaitKey, Wait> explain() {
    for (auto& [device, lanes] : devices_) {
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
  void add_gap(std::int32_t device, Lanes& lanes, double from, const Span* next) {
    const double to = next ? next->start.base() : timeline_.step_time.base();
    if (to - from < kShortestGap) return;
    if (next) {
      if (const Span* input = messages_.last_input(*next); input && input->end.base() > from) {
        add_transfer(device, *input, from, to);
        return;
      }
    }
    const double summing = std::min(summing_in(lanes, from, to), to - from);
    if (summing > 0) add(device, "sums over replicas", -1, summing, summing);
    const char* rest = !next ? "the end of the step" : from == 0 ? "the start of the step" : "its own host";
    if (to - from - summing >= kShortestGap) add(device, rest, -1, to - from - summing, 0);
  }

  // Gaps come in the order of time, so that no sum is looked at again that ended before one.
  static double summing_in(Lanes& lanes, double from, double to) {
    const auto& sums = lanes.sums;
    while (lanes.first_sum < sums.size() && sums[lanes.first_sum]->end.base() <= from) ++lanes.first_sum;
    double summing = 0;
    for (std::size_t i = lanes.first_sum; i < sums.size() && sums[i]->start.base() < to; ++i)
      summing += overlap(*sums[i], from, to);
    return summing;
  }

  void add_transfer(std::int32_t device, const Span& input, double from, double to) {
    const Span* send = messages_.sender_of(input);
    const bool activations = input.action.kind == ActionKind::RecvF;
    std::string reason = activations ? "activations" : "gradients";
    if (send) reason += fmt::format(" of stage {}", send->action.stage);
    // The time between the arrival and the start is the device's own.
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
  const Messages messages_;
  std::map<std::int32_t, Lanes> devices_;
  std::map<WaitKey, Wait> waits_;
};

}  // namespace

std::map<WaitKey, Wait> waits_of(const Timeline& timeline) { return Explainer(timeline).explain(); }

}  // namespace panpipe::study
