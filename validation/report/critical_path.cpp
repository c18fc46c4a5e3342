#include "validation/report/critical_path.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace panpipe {
namespace {

// Times of a measured result come from several clocks: what ends this much after a start may still be its cause.
constexpr double kSlack = 1e-9;

bool is_backward(ActionKind kind) { return kind == ActionKind::B || kind == ActionKind::I; }

class Path {
 public:
  explicit Path(const Timeline& timeline) {
    for (const Span& span : timeline.spans) {
      const Action& action = span.action;
      if (span.lane == Lane::Compute) compute_[span.device].push_back(&span);
      if (span.lane == Lane::Data) reductions_[span.device].push_back(&span);
      if (span.lane == Lane::Receive)
        receives_[{span.device, action.kind == ActionKind::RecvF, action.stage, action.microbatch, action.split}].push_back(
            &span);
      if (span.lane == Lane::Send) sends_[{action.kind == ActionKind::SendF, action.microbatch, action.split}].push_back(&span);
      if (span.lane == Lane::Compute && (action.kind == ActionKind::F || is_backward(action.kind)))
        makers_[{span.device, action.kind == ActionKind::F, action.stage, action.microbatch, action.split}] = &span;
    }
  }

  std::vector<PathPart> run() {
    const Span* at = last();
    for (std::size_t steps = 0; at && steps < kMostSteps; ++steps) {
      add(*at);
      at = before(*at);
    }
    if (at_ > kSlack && !parts_.empty()) parts_.push_back({PathKind::Gap, parts_.back().device, "", 0, at_});
    std::reverse(parts_.begin(), parts_.end());
    return std::move(parts_);
  }

 private:
  static constexpr std::size_t kMostSteps = 10'000'000;
  using Spans = std::vector<const Span*>;

  const Span* last() const {
    const Span* latest = nullptr;
    for (const auto* lanes : {&compute_, &reductions_})
      for (const auto& [device, spans] : *lanes)
        for (const Span* span : spans)
          if (!latest || span->end > latest->end) latest = span;
    return latest;
  }

  void add(const Span& span) {
    const double end = parts_.empty() ? span.end.base() : std::min(span.end.base(), at_);
    if (!parts_.empty() && at_ - end > kSlack) parts_.push_back({PathKind::Gap, parts_.back().device, "", end, at_});
    PathKind kind = span.action.is_compute() ? PathKind::Pass : PathKind::Optimizer;
    if (span.lane == Lane::Data) kind = PathKind::Reduction;
    parts_.push_back({kind, span.device, span.label.empty() ? to_text(span.action) : span.label, span.start.base(), end});
    at_ = span.start.base();
  }

  // The latest of a lane's spans that ended before `start`; spans are sorted by start.
  static const Span* latest_before(const std::map<std::int32_t, Spans>& lanes, std::int32_t device, const Span& next) {
    const auto own = lanes.find(device);
    if (own == lanes.end()) return nullptr;
    const Spans& spans = own->second;
    auto at = std::lower_bound(spans.begin(), spans.end(), next.start,
                               [](const Span* span, Duration start) { return span->start < start; });
    const Span* latest = nullptr;
    for (int looked = 0; at != spans.begin() && looked < 16; ++looked) {  // members of a group overlap
      const Span* span = *--at;
      if (span == &next || span->end.base() > next.start.base() + kSlack) continue;
      if (!latest || span->end > latest->end) latest = span;
    }
    return latest;
  }

  const Span* before(const Span& span) {
    const Span* cause = latest_before(compute_, span.device, span);
    if (span.lane == Lane::Compute && span.action.is_compute()) {
      const Span* input = input_of(span);
      if (input && (!cause || input->end > cause->end))
        if (const Span* maker = maker_of(*input)) {
          transfer(*maker, *input);
          return maker;
        }
    } else {
      const Span* reduction = latest_before(reductions_, span.device, span);
      if (reduction && (!cause || reduction->end > cause->end)) cause = reduction;
    }
    return cause;
  }

  const Span* input_of(const Span& span) const {
    const Action& action = span.action;
    if (action.kind != ActionKind::F && !is_backward(action.kind)) return nullptr;
    const auto found = receives_.find({span.device, action.kind == ActionKind::F, action.stage, action.microbatch, action.split});
    if (found == receives_.end()) return nullptr;
    const Span* latest = nullptr;
    for (const Span* receive : found->second)
      if (receive->end.base() <= span.start.base() + kSlack && (!latest || receive->end > latest->end)) latest = receive;
    return latest;
  }

  // The pass on another device whose output it is: that of the send nearest in time.
  const Span* maker_of(const Span& receive) const {
    const bool forward = receive.action.kind == ActionKind::RecvF;
    const auto found = sends_.find({forward, receive.action.microbatch, receive.action.split});
    if (found == sends_.end()) return nullptr;
    const Span* nearest = nullptr;
    const auto distance = [&](const Span* send) {
      return std::abs((send->end - receive.end).base()) + std::abs((send->start - receive.start).base());
    };
    for (const Span* send : found->second)
      if (send->device != receive.device && send->bytes == receive.bytes && (!nearest || distance(send) < distance(nearest)))
        nearest = send;
    if (!nearest) return nullptr;
    const Action& sent = nearest->action;
    const auto maker = makers_.find({nearest->device, forward, sent.stage, sent.microbatch, sent.split});
    // It ended before its output arrived; else it is another pass, or the clocks are apart.
    return maker != makers_.end() && maker->second->start < receive.end ? maker->second : nullptr;
  }

  void transfer(const Span& maker, const Span& receive) {
    if (at_ - receive.end.base() > kSlack) parts_.push_back({PathKind::Gap, receive.device, "", receive.end.base(), at_});
    at_ = std::min(at_, receive.end.base());
    const double start = std::min(at_, maker.end.base());
    if (at_ - start > 0) parts_.push_back({PathKind::Transfer, receive.device, to_text(receive.action), start, at_});
    at_ = start;
  }

  std::map<std::int32_t, Spans> compute_, reductions_;
  std::map<std::tuple<std::int32_t, bool, int, int, int>, Spans> receives_;  // (device, activations, stage, microbatch, split)
  std::map<std::tuple<bool, int, int>, Spans> sends_;
  std::map<std::tuple<std::int32_t, bool, int, int, int>, const Span*> makers_;
  std::vector<PathPart> parts_;  // last first
  double at_ = 0;                // start of the earliest part so far
};

}  // namespace

const char* name_of(PathKind kind) {
  switch (kind) {
    case PathKind::Pass:
      return "passes";
    case PathKind::Optimizer:
      return "optimizer";
    case PathKind::Transfer:
      return "transfers between stages";
    case PathKind::Reduction:
      return "summing of gradients";
    case PathKind::Gap:
      break;
  }
  return "gaps (host, clocks)";
}

std::vector<PathPart> critical_path(const Timeline& timeline) { return Path(timeline).run(); }

}  // namespace panpipe
