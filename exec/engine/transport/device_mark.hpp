// A point in the work of an accelerator, for other streams to wait for, and the time at which the device reached it. A host runs
// ahead of its device: the host's own clock shows when work was queued, not when it was done.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <memory>

namespace at {
class Tensor;
}

namespace panpipe::exec {

class DeviceMark {
 public:
  DeviceMark() = default;  // without device: always reached
  explicit DeviceMark(c10::Event&& event) : event_(std::make_shared<c10::Event>(std::move(event))) {}  // recorded, with timing
  // After all work queued so far on this thread's current stream of `device`. On a CPU, where calls are synchronous, it is a mark
  // without device.
  static DeviceMark on(c10::Device device);

  explicit operator bool() const { return event_ != nullptr; }
  bool reached() const { return !event_ || event_->query(); }  // thread-safe
  // Cannot be interrupted; within a run call Transport::settle first.
  void wait() const {
    if (event_) event_->synchronize();
  }
  // Makes the current streams of `device` and of the tensor's own device wait for this point; a copy to another device runs on
  // the latter. Keeps the tensor's memory until that stream has passed. Does nothing on a CPU.
  void before(c10::Device device, const at::Tensor& value) const;
  // Both marks must be reached and belong to the same device.
  double seconds_since(const DeviceMark& earlier) const { return earlier.event_->elapsedTime(*event_) * 1e-3; }

 private:
  std::shared_ptr<c10::Event> event_;
};

}  // namespace panpipe::exec
