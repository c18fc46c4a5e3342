// The driver's data about GPUs under load: clocks, power, heat.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "cli/driver_gpus.hpp"

namespace panpipe::cli {

// Keeps the highest value of each number, all reasons for reduced clocks, the current power limits, and all clocks seen.
class GpuLoad {
 public:
  void look();  // four times a second at most
  const std::vector<GpuState>& states() const { return states_; }
  const std::vector<int>& clocks(std::size_t gpu) const { return clocks_.at(gpu); }  // known for every state
  const GpuMonitor& monitor() const { return monitor_; }

 private:
  GpuMonitor monitor_;
  std::vector<GpuState> states_;
  std::vector<std::vector<int>> clocks_;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace panpipe::cli
