// Times pieces of work that a rank's device does one after the other. On a CPU by the steady clock. An accelerator runs behind
// the host: there by events on the rank's stream, read when all of the work has been given out, so that measuring does not make
// the device wait for the host where a run would not.
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

  // Appends the seconds that the work takes: at once on a CPU, else in read(). `samples` must live until then.
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

  // Waits for the device, and appends what was timed since, in order. Nothing to do on a CPU.
  void read();
  // Waits until the device has done what this rank's stream was given.
  void wait() const;

 private:
  struct Piece {
    std::vector<double>* samples;
    DeviceMark start, end;
  };

  c10::Device device_;
  std::vector<Piece> unread_;
};

}  // namespace panpipe::exec
