// Records the spans of a rank's step while it runs. On a CPU their times are the host's. An accelerator lags behind its host, so
// spans get the times of marks in its work, read once it has finished. Both count from the same moment.
#pragma once

#include <utility>
#include <vector>

#include "costmodel/timeline/timeline.hpp"
#include "exec/engine/transport/device_mark.hpp"
#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

// `bytes`: of transfers, collectives and copies. `label`: of collectives.
inline Span span_on(int device, Lane lane, const Action& action, std::int64_t bytes = 0, const char* label = "") {
  Span span{device, lane, action, label};
  span.bytes = Bytes(bytes);
  return span;
}

class SpanLog {
 public:
  // The mark applies if there is one.
  struct Moment {
    Clock::time_point host{};
    DeviceMark mark;
  };
  using Interval = std::pair<Moment, Moment>;

  explicit SpanLog(c10::Device device) : device_(device) {}

  // Starts a step with time 0 now. The device must have finished all earlier work.
  void begin(std::size_t expected);  // number of spans to reserve, so that measuring does not allocate
  Clock::time_point started() const { return started_; }

  // The time on the host's clock and, on an accelerator, in this thread's current stream.
  Moment now() const { return {Clock::now(), DeviceMark::on(device_)}; }
  // The time at which an awaited operation finished; now, if its transport does not know.
  Moment done(const Pending& operation) const;
  // The span ends with the last of `ends`. `waits` are intervals in which its work stood still; their sum becomes its `waiting`.
  void note(Span span, Moment start, std::vector<Moment> ends, std::vector<Interval> waits = {});
  // The spans of the step. The device must have finished everything (Transport::settle), since marks outside the rank's own work
  // may complete only then.
  std::vector<Span> take();

 private:
  struct Entry {
    Span span;
    Moment start;
    std::vector<Moment> ends;
    std::vector<Interval> waits;
  };
  Duration time_of(const Moment& moment) const;

  c10::Device device_;
  Clock::time_point started_{};
  DeviceMark zero_;
  std::vector<Entry> entries_;
};

}  // namespace panpipe::exec
