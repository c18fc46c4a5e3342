// The spans of a rank's step while it runs. On a CPU their times are the host's. An accelerator runs behind its host: there they
// are those of marks in its work, read when it has done all of it; both count from the same moment.
#pragma once

#include <utility>
#include <vector>

#include "costmodel/timeline/timeline.hpp"
#include "exec/engine/transport/device_mark.hpp"
#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

class SpanLog {
 public:
  // The mark counts where there is one.
  struct Moment {
    Clock::time_point host{};
    DeviceMark mark;
  };
  using Interval = std::pair<Moment, Moment>;

  explicit SpanLog(c10::Device device) : device_(device) {}

  // A step begins: its time 0 is now. The device has done everything before, so that nothing of it counts here.
  void begin(std::size_t expected);  // spans: so that measuring does not allocate
  Clock::time_point started() const { return started_; }

  // The host's clock and, on an accelerator, this thread's current stream.
  Moment now() const { return {Clock::now(), DeviceMark::on(device_)}; }
  // When an operation that was waited for was done; now, where its transport does not know.
  Moment done(const Pending& operation) const;
  // It ends with the last of `ends`. `waits`: in which the work of the span stood still; their sum becomes its `waiting`.
  void note(Span span, Moment start, std::vector<Moment> ends, std::vector<Interval> waits = {});
  // The spans of the step. The device must have done everything (Transport::settle): marks beside the rank's own work come to
  // their turn then, if they have not.
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
