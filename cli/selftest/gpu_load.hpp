// The driver's data about GPUs under load: clocks, power, heat.
#pragma once

#include <chrono>
#include <vector>

#include "cli/driver_gpus.hpp"

namespace panpipe::cli {

// Keeps the highest value of each number, all reasons for reduced clocks, and the current power limits.
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
