// Times consecutive work on a rank's device. A CPU uses the steady clock. An accelerator lags behind the host, so events on the
// rank's stream are used and read once all work is queued. Measuring then does not make the device wait for the host.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <utility>
#include <vector>

#include "exec/engine/profile/robust_median.hpp"
#include "exec/engine/transport/device_mark.hpp"

namespace panpipe::exec {

class Stopwatch {
 public:
  explicit Stopwatch(c10::Device device) : device_(device) {}

  // Appends the seconds of the work to `samples`: at once on a CPU, else in read(). `samples` must live until then.
  template <class Work>
  void time(std::vector<double>& samples, Work work) {
    if (device_.is_cpu()) {
      const auto start = std::chrono::steady_clock::now();
      work();
      samples.push_back(seconds_since(start));
      return;
    }
    DeviceMark start = DeviceMark::on(device_);
    work();
    unread_.push_back({&samples, std::move(start), DeviceMark::on(device_)});
  }

  // Waits for the device, and appends the timings since the last call, in order. Does nothing on a CPU.
  void read();
  // Waits until the device has finished this rank's stream.
  void wait() const;

 private:
  struct Piece {
    std::vector<double>* samples;
    DeviceMark start, end;
  };

  c10::Device device_;
  std::vector<Piece> unread_;
};

// The median of so many calls one behind the other.
template <class Work>
double median_seconds(c10::Device device, int times, Work work) {
  Stopwatch watch(device);
  std::vector<double> samples;
  for (int i = 0; i < times; ++i) watch.time(samples, work);
  watch.read();
  return robust_median(samples).median;
}

}  // namespace panpipe::exec
