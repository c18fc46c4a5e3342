#include "cli/selftest/gpu_load.hpp"

#include <algorithm>

namespace panpipe::cli {

void GpuLoad::look() {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < std::chrono::milliseconds(250)) return;
  last_ = now;
  const std::vector<GpuState> states = monitor_.now();
  if (states_.size() < states.size()) {
    states_.resize(states.size());
    clocks_.resize(states.size());
  }
  for (std::size_t i = 0; i < states.size(); ++i) {
    GpuState& most = states_[i];
    const GpuState before = most;
    most = states[i];
    if (most.clock > 0) clocks_[i].push_back(most.clock);
    most.clock = std::max(most.clock, before.clock);
    most.temperature = std::max(most.temperature, before.temperature);
    most.pcie_generation = std::max(most.pcie_generation, before.pcie_generation);
    most.pcie_lanes = std::max(most.pcie_lanes, before.pcie_lanes);
    most.slowed |= before.slowed;
  }
}

}  // namespace panpipe::cli
