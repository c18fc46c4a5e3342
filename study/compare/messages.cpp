#include "study/compare/messages.hpp"

#include <algorithm>
#include <cmath>

namespace panpipe::study {

Messages::Message Messages::message_of(const Span& span) {
  const ActionKind kind = span.action.kind;
  return {kind == ActionKind::SendF || kind == ActionKind::RecvF, span.action.microbatch, span.action.split, span.bytes.base()};
}

Messages::Messages(const Timeline& timeline) {
  for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
    const Span& span = timeline.spans[i];
    if (span.lane != Lane::Send && span.lane != Lane::Receive) continue;
    const Action& action = span.action;
    if (span.lane == Lane::Receive)
      inputs_[{span.device, action.kind == ActionKind::RecvF, action.stage, action.microbatch, action.split}].push_back(&span);
    (span.lane == Lane::Send ? sends_ : receives_)[message_of(span)].push_back({span.end.base(), i, &span});
  }
  for (Ends* ends : {&sends_, &receives_})
    for (auto& [message, list] : *ends)
      std::sort(list.begin(), list.end(),
                [](const End& a, const End& b) { return std::tie(a.at, a.order) < std::tie(b.at, b.order); });
}

const Span* Messages::last_input(const Span& pass, double until) const {
  const Action& action = pass.action;
  const bool forward = action.kind == ActionKind::F;
  if (!forward && action.kind != ActionKind::B && action.kind != ActionKind::I) return nullptr;
  const auto found = inputs_.find({pass.device, forward, action.stage, action.microbatch, action.split});
  if (found == inputs_.end()) return nullptr;
  const Span* last = nullptr;
  for (const Span* receive : found->second)
    if (receive->end.base() <= until && (last == nullptr || receive->end > last->end)) last = receive;
  return last;
}

// Outwards from the span's own end, until the ends alone are further away than the best so far. If several are equally near, the
// first.
const Span* Messages::nearest(const Ends& ends, const Span& span) {
  const auto found = ends.find(message_of(span));
  if (found == ends.end()) return nullptr;
  const std::vector<End>& list = found->second;
  const double end = span.end.base();
  const End* best = nullptr;
  double least = 0;
  const auto look = [&](const End& candidate) {  // false: nothing behind it is nearer
    const double apart = std::abs(candidate.at - end);
    if (best && apart > least) return false;
    if (candidate.span->device == span.device) return true;
    const double distance = apart + std::abs((candidate.span->start - span.start).base());
    if (!best || distance < least || (distance == least && candidate.order < best->order)) {
      best = &candidate;
      least = distance;
    }
    return true;
  };
  const auto middle = std::lower_bound(list.begin(), list.end(), end, [](const End& e, double at) { return e.at < at; });
  for (auto later = middle; later != list.end() && look(*later); ++later) {
  }
  for (auto earlier = middle; earlier != list.begin() && look(*(earlier - 1)); --earlier) {
  }
  return best ? best->span : nullptr;
}

}  // namespace panpipe::study
