// The least number of devices for the layers before a suffix, from time and memory together.
//
// A stage on c = data x tensor devices takes at most c T of device time. Each of its replicas holds in_flight microbatches, at
// least as many as there are replicas from this stage on. With s replicas after it, the stage therefore takes at least
// sum of tensor * (in_flight bytes * (s + 1) + fixed bytes) of the c M bytes. For every price per byte:
//   c >= sum over its layers of min over choices of tensor * (time + price * bytes(s + 1)) / (T + price * M).
#pragma once

#include <algorithm>
#include <vector>

#include "planner/piper/knapsack.hpp"
#include "planner/piper/planning_problem.hpp"

namespace panpipe::planner::piper {

class FrontBounds {
 public:
  FrontBounds(const PlanningProblem& problem, const Suffixes& suffixes);

  // Devices, not rounded, that the layers outside the suffix need if `replicas` follow them and no load exceeds `limit`.
  double devices(std::size_t suffix, int replicas, double limit) const {
    const PricedSums& sums = slots_[replicas / step_];
    const std::size_t all = suffixes_.size() - 1;
    double most = sums.memory(all, suffix) / memory_;
    for (std::size_t k = 0; k < prices_.size() && limit < kInfinity; ++k)
      most = std::max(most, sums.priced(all, suffix, k) / (limit + prices_[k] * memory_));
    return most;
  }
  // A lower bound on every plan's slowest load; infinite if memory does not suffice at all.
  double least_limit() const;

 private:
  const Suffixes& suffixes_;
  double memory_;
  int total_devices_;
  int step_ = 1;                   // replicas between two slots
  std::vector<double> prices_;     // per byte
  std::vector<PricedSums> slots_;  // device time and bytes, by replicas
};

}  // namespace panpipe::planner::piper
