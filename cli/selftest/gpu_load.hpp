// What the driver says of the GPUs while they are at work: clocks, power, heat.
#pragma once

#include <chrono>
#include <vector>

#include "cli/driver_gpus.hpp"

namespace panpipe::cli {

// The highest of each number over the time, every reason for slower clocks that there was, and power limits as they are now.
class GpuLoad {
 public:
  void look();  // twice a second at most
  const std::vector<GpuState>& states() const { return states_; }
  const GpuMonitor& monitor() const { return monitor_; }

 private:
  GpuMonitor monitor_;
  std::vector<GpuState> states_;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace panpipe::cli
