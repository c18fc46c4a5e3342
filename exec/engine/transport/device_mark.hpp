// A point in the work that an accelerator was given, and when it got there. A host is ahead of its device: what it reads from its
// own clock is when it asked, not when it was done.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <memory>

namespace panpipe::exec {

class DeviceMark {
 public:
  DeviceMark() = default;                                                                              // of no device: reached
  explicit DeviceMark(c10::Event&& event) : event_(std::make_shared<c10::Event>(std::move(event))) {}  // recorded, with timing
  // After everything that this thread's current stream of `device` has been given. Of no device on a CPU, where what was called
  // is done.
  static DeviceMark on(c10::Device device);

  explicit operator bool() const { return event_ != nullptr; }
  bool reached() const { return !event_ || event_->query(); }  // from any thread
  // Cannot be interrupted: within a run Transport::settle comes first.
  void wait() const {
    if (event_) event_->synchronize();
  }
  // Both reached, and of one device.
  double seconds_since(const DeviceMark& earlier) const { return earlier.event_->elapsedTime(*event_) * 1e-3; }

 private:
  std::shared_ptr<c10::Event> event_;
};

}  // namespace panpipe::exec
