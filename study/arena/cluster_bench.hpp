// A pipeline of equal stages on a cluster: what a schedule's step takes there under a ratio of costs.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "study/arena/arena.hpp"

namespace panpipe::arena {

class ClusterBench {
 public:
  // InputError: an unknown cluster, fewer devices than ranks, devices without a peak in bf16.
  ClusterBench(const std::string& cluster, const CostRatio& ratio, int ranks, int microbatches);
  ~ClusterBench();

  // Costs of a stage that is one of so many on a rank, in seconds; the delay is the mean over neighbouring ranks.
  PassCosts costs(int stages_per_rank) const;
  // With the times of both engines. Safe to call from several threads.
  ClusterTime time(const Schedule& schedule, int stages_per_rank, const Engine& simulate) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace panpipe::arena
