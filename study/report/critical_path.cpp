#include "study/report/critical_path.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>

#include "costmodel/timeline/device_sums.hpp"
#include "costmodel/timeline/step_time.hpp"
#include "study/compare/messages.hpp"

namespace panpipe::study {
namespace {

// Times of a measured result come from several clocks: what ends this much after a start may still be its cause.
constexpr double kSlack = 1e-9;
// Predicted times are whole picoseconds, printed so that they read back exactly; the sum of two is off by less.
constexpr double kTick = 0.5e-12;
constexpr int kOverlapping = 64;  // members of a group overlap: as many spans of a lane are looked at

bool is_forward(const Span& transfer) {
  return transfer.action.kind == ActionKind::SendF || transfer.action.kind == ActionKind::RecvF;
}
bool is_pass(const Span& span) { return span.lane == Lane::Compute && span.action.is_compute(); }

PathPartKind kind_of(const Span& span) {
  switch (counted_lane(span.lane, span.action.kind)) {
    case Lane::Send:
      return PathPartKind::Held;
    case Lane::Receive:
      return PathPartKind::Transfer;
    case Lane::Vocabulary:
      return PathPartKind::Reduction;
    case Lane::Data:
      return span.label == "all_gather" ? PathPartKind::Gathering : PathPartKind::Reduction;
    case Lane::Copy:
      return PathPartKind::Copy;
    default:
      return span.action.is_compute() || span.action.is_vocabulary() ? PathPartKind::Pass : PathPartKind::Optimizer;
  }
}

// Shared by both ways to walk back: lanes in order, messages, the makers of values, and the parts so far.
class Path {
 public:
  explicit Path(const Timeline& timeline) : messages_(timeline) {
    for (const Span& span : timeline.spans) {
      lanes_[{span.device, span.lane}].push_back(&span);
      const Action& action = span.action;
      if (is_pass(span) && (action.kind == ActionKind::F || starts_backward(action.kind)))
        makers_[{span.device, action.kind == ActionKind::F, action.stage, action.microbatch, action.split}] = &span;
      const bool ends_steps = span.lane == Lane::Compute || span.lane == Lane::Data || span.lane == Lane::Copy;
      if (ends_steps && (!last_ || span.end > last_->end)) last_ = &span;
    }
    if (const auto rolled = rolled_steps(timeline)) begin_with(*rolled);
  }
  virtual ~Path() = default;

  std::vector<PathPart> run() {
    for (const Span* at = last_; at && visited_.insert(at).second;) {
      add(*at);
      if (first_ > 0 && at_ <= first_) break;
      at = before(*at);
    }
    if (!parts_.empty() && first_ > 0 && at_ < first_) cut(parts_.back());
    if (!parts_.empty()) gap_down_to(first_);
    std::reverse(parts_.begin(), parts_.end());
    return std::move(parts_);
  }

 protected:
  using Spans = std::vector<const Span*>;

  virtual const Span* before(const Span& span) = 0;

  // Steps in a row: back from the end of the window that takes longest, and no further than to its start.
  void begin_with(const RolledSteps& rolled) {
    const auto& windows = rolled.windows;
    const auto longest = std::max_element(windows.begin(), windows.end(), [](const auto& a, const auto& b) {
      return a.second.end - a.second.start < b.second.end - b.second.start;
    });
    first_ = longest->second.start;
    for (const Span* span : lanes_[{longest->first, Lane::Compute}])
      if (span->action.kind == ActionKind::Opt && span->end.base() == longest->second.end) last_ = span;
  }

  void cut(PathPart& part) {
    const double length = part.end - part.start, left = part.end - first_;
    if (length > 0) part.inside *= left / length;
    part.start = at_ = first_;
  }

  void gap_down_to(double time) {
    if (at_ - time <= kSlack) return;
    parts_.push_back({gap_, parts_.back().device, "", time, at_, 0});
    at_ = time;
  }

  // A part from the span's start to where the chain stands: to its end, or to where the next one started during it.
  void add(const Span& span) {
    const double end = parts_.empty() ? span.end.base() : std::min(span.end.base(), at_);
    if (!parts_.empty()) gap_down_to(end);
    const double length = (span.end - span.start).base(), share = length > 0 ? (end - span.start.base()) / length : 0;
    const double slowed = span.alone > Duration(0) ? std::max(0.0, length - span.alone.base()) : 0;
    parts_.push_back({kind_of(span), span.device, span.label.empty() ? to_text(span.action) : span.label, span.start.base(), end,
                      share * (is_pass(span) ? std::min(span.waiting.base(), length) : slowed)});
    at_ = span.start.base();
  }

  const Spans& lane(std::int32_t device, Lane lane) const {
    static const Spans kNone;
    const auto found = lanes_.find({device, lane});
    return found == lanes_.end() ? kNone : found->second;
  }

  // The latest of a lane's spans that ended before `next` starts.
  const Span* latest_before(std::int32_t device, Lane of, const Span& next) const {
    const Span* latest = nullptr;
    const Spans& spans = lane(device, of);
    auto at = std::lower_bound(spans.begin(), spans.end(), next.start,
                               [](const Span* span, Duration start) { return span->start < start; });
    for (int looked = 0; at != spans.begin() && looked < kOverlapping; ++looked) {
      const Span* span = *--at;
      if (span == &next || span->end.base() > next.start.base() + kSlack) continue;
      if (!latest || span->end > latest->end) latest = span;
    }
    return latest;
  }

  // The pass on the sender's side whose output a send carries.
  const Span* maker_of(const Span& send) const {
    const auto maker =
        makers_.find({send.device, is_forward(send), send.action.stage, send.action.microbatch, send.action.split});
    return maker == makers_.end() ? nullptr : maker->second;
  }

  const Messages messages_;
  std::map<std::pair<std::int32_t, Lane>, Spans> lanes_;
  std::map<std::tuple<std::int32_t, bool, int, int, int>, const Span*> makers_;
  const Span* last_ = nullptr;
  std::set<const Span*> visited_;
  std::vector<PathPart> parts_;  // last first
  double at_ = 0;                // start of the earliest part so far
  double first_ = 0;             // where the path ends
  PathPartKind gap_ = PathPartKind::Gap;
};

class MeasuredPath : public Path {
 public:
  using Path::Path;

 private:
  const Span* before(const Span& span) override {
    const Span* cause = latest_before(span.device, Lane::Compute, span);
    if (is_pass(span)) {
      const Span* input = messages_.last_input(span, span.start.base() + kSlack);
      if (input && (!cause || input->end > cause->end))
        if (const Span* send = messages_.sender_of(*input)) {
          const Span* maker = maker_of(*send);
          // It ended before its output arrived; else it is another pass, or the clocks are apart.
          if (maker && maker->start < input->end) {
            transfer(*maker, *input);
            return maker;
          }
        }
    } else {
      const Span* reduction = latest_before(span.device, Lane::Data, span);
      if (reduction && (!cause || reduction->end > cause->end)) cause = reduction;
    }
    return cause;
  }

  // From the end of the pass on: a message waits on its way.
  void transfer(const Span& maker, const Span& receive) {
    gap_down_to(receive.end.base());
    at_ = std::min(at_, receive.end.base());
    const double start = std::min(at_, maker.end.base());
    if (at_ - start > 0) parts_.push_back({PathPartKind::Transfer, receive.device, to_text(receive.action), start, at_, 0});
    at_ = start;
  }
};

class PredictedPath : public Path {
 public:
  explicit PredictedPath(const present::ResultDocument& result)
      : Path(result.timeline), sends_hold_(result.plan.transfers != "asynchronous") {
    for (const DeviceTimeline& device : result.timeline.devices) copies_ = copies_ || device.same_as >= 0;
    for (const auto& [key, spans] : lanes_) {
      Spans& ends = ends_[key];
      ends = spans;
      std::stable_sort(ends.begin(), ends.end(), [](const Span* a, const Span* b) { return a->end < b->end; });
      if (key.second == Lane::Data)
        for (const Span* span : spans) meetings_[{span->start.base(), span->label}].push_back(span);
    }
  }

 private:
  const Span* before(const Span& span) override {
    gap_ = PathPartKind::Gap;
    if (span.start.base() <= kTick) return nullptr;
    if (span.lane == Lane::Receive) {
      const Span* send = messages_.sender_of(span);
      return send ? before_transfer(*send, span) : nullptr;
    }
    if (span.lane == Lane::Send) {
      const Span* receive = messages_.receiver_of(span);
      return before_transfer(span, receive ? *receive : span);
    }
    if (const Span* cause = before_on(span.device, span)) return cause;
    if (span.lane != Lane::Data) return latest(span);
    for (const Span* other : meetings_[{span.start.base(), span.label}])  // the one that came last
      if (other->device != span.device)
        if (const Span* cause = before_on(other->device, *other)) return cause;
    if (copies_) gap_ = PathPartKind::Replicas;
    return latest(span);
  }

  // The span that ends on a device when `span` starts, and lets it start.
  const Span* before_on(std::int32_t device, const Span& span) const {
    const double start = span.start.base();
    if (const Span* cause = ended_at(device, Lane::Compute, start)) return cause;
    if (const Span* input = messages_.last_input(span); input && is_at(*input, start)) return input;
    for (const Lane lane : {Lane::Data, Lane::Copy})
      if (const Span* cause = ended_at(device, lane, start)) return cause;
    if (span.lane == Lane::Compute) {
      // A group waits for the inputs of all its members; a batch is waited for as a whole.
      if (const Span* cause = ended_at(device, Lane::Receive, start)) return cause;
      if (const Span* cause = sends_hold_ ? ended_at(device, Lane::Send, start) : nullptr) return cause;
    }
    return covering(device, start);
  }

  const Span* before_transfer(const Span& send, const Span& receive) const {
    const double start = send.start.base();
    const Span* maker = maker_of(send);
    if (maker && is_at(*maker, start)) return maker;
    if (const Span* cause = ended_at(send.device, Lane::Compute, start)) return cause;
    if (sends_hold_)
      if (const Span* cause = ended_at(receive.device, Lane::Compute, start)) return cause;
    if (const Span* cause = covering(send.device, start)) return cause;  // an output that leaves before its pass has ended
    return latest_before(send.device, Lane::Compute, send);
  }

  bool is_at(const Span& span, double time) const {
    return std::abs(span.end.base() - time) <= kTick && !visited_.contains(&span);
  }

  const Span* ended_at(std::int32_t device, Lane of, double time) const {
    const auto found = ends_.find({device, of});
    if (found == ends_.end()) return nullptr;
    const Spans& ends = found->second;
    auto at =
        std::lower_bound(ends.begin(), ends.end(), time - kTick, [](const Span* span, double t) { return span->end.base() < t; });
    for (; at != ends.end() && (*at)->end.base() <= time + kTick; ++at)
      if (is_at(**at, time)) return *at;
    return nullptr;
  }

  // A pass of the device's compute lane that runs at that moment: of a woven group, or one whose last collectives run on.
  const Span* covering(std::int32_t device, double time) const {
    const Spans& spans = lane(device, Lane::Compute);
    auto at = std::lower_bound(spans.begin(), spans.end(), time - kTick,
                               [](const Span* span, double t) { return span->start.base() < t; });
    for (int looked = 0; at != spans.begin() && looked < kOverlapping; ++looked)
      if (const Span* span = *--at; span->end.base() > time + kTick && !visited_.contains(span)) return span;
    return nullptr;
  }

  // Where nothing ends at the moment of the start: what ended last before.
  const Span* latest(const Span& span) const {
    const Span* found = nullptr;
    for (const Lane lane : {Lane::Compute, Lane::Data, Lane::Copy})
      if (const Span* candidate = latest_before(span.device, lane, span))
        if (!found || candidate->end > found->end) found = candidate;
    return found;
  }

  const bool sends_hold_;
  bool copies_ = false;
  std::map<std::pair<std::int32_t, Lane>, Spans> ends_;       // lanes, by end
  std::map<std::pair<double, std::string>, Spans> meetings_;  // collectives of several ranks start together
};

}  // namespace

const char* name_of(PathPartKind kind) {
  constexpr auto kKinds = static_cast<std::size_t>(PathPartKind::Gap) + 1;
  static constexpr std::array<const char*, kKinds> kNames = {"passes",
                                                             "tensor-parallel collectives",
                                                             "optimizer",
                                                             "transfers between stages",
                                                             "senders held by their transfers",
                                                             "shared links",
                                                             "summing of gradients",
                                                             "gathering of parameters",
                                                             "copies to and from the host",
                                                             "waiting for other replicas",
                                                             "gaps (host, clocks)"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::vector<PathPart> critical_path(const present::ResultDocument& result) {
  return result.measured() ? MeasuredPath(result.timeline).run() : PredictedPath(result).run();
}

int steps_of_path(const present::ResultDocument& result) {
  const auto rolled = rolled_steps(result.timeline);
  return rolled ? rolled->steps : 1;
}

std::map<PathPartKind, double> sums_of(const std::vector<PathPart>& path, int steps) {
  std::map<PathPartKind, double> sums;
  for (const PathPart& part : path) {
    sums[part.kind] += part.end - part.start - part.inside;
    if (part.inside > 0)
      sums[part.kind == PathPartKind::Pass ? PathPartKind::PassCollective : PathPartKind::Sharing] += part.inside;
  }
  for (auto& [kind, time] : sums) time /= steps;
  return sums;
}

}  // namespace panpipe::study
