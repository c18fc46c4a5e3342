#include "exec/engine/measure/span_log.hpp"

#include <algorithm>

#include "exec/engine/transport/wait_limit.hpp"

namespace panpipe::exec {

void SpanLog::begin(std::size_t expected) {
  entries_.clear();
  entries_.reserve(expected);
  zero_ = DeviceMark::on(device_);
  zero_.wait();  // not long: the device has nothing else to do
  started_ = Clock::now();
}

SpanLog::Moment SpanLog::done(const Pending& operation) const {
  if (operation.landed) return {Clock::now(), operation.landed};
  if (operation.completed != Clock::time_point{}) return {operation.completed, {}};
  return now();
}

void SpanLog::note(Span span, Moment start, std::vector<Moment> ends, std::vector<Interval> waits) {
  entries_.push_back({std::move(span), std::move(start), std::move(ends), std::move(waits)});
}

Duration SpanLog::time_of(const Moment& moment) const {
  if (moment.mark) {
    for (Pauses pauses; !moment.mark.reached(); pauses.next()) {
    }
    return seconds(moment.mark.seconds_since(zero_));
  }
  return seconds(std::chrono::duration<double>(moment.host - started_).count());
}

std::vector<Span> SpanLog::take() {
  std::vector<Span> spans;
  spans.reserve(entries_.size());
  for (Entry& entry : entries_) {
    entry.span.start = time_of(entry.start);
    entry.span.end = time_of(entry.ends.front());
    for (const Moment& end : entry.ends) entry.span.end = std::max(entry.span.end, time_of(end));
    for (const auto& [from, to] : entry.waits) entry.span.waiting += time_of(to) - time_of(from);
    spans.push_back(std::move(entry.span));
  }
  entries_.clear();
  return spans;
}

}  // namespace panpipe::exec
