// A pipeline of equal stages on a cluster: measures a schedule's step on it under a ratio of costs.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "study/arena/arena.hpp"

namespace panpipe::study {

class ClusterBench {
 public:
  // Throws InputError for an unknown cluster, fewer devices than ranks, or devices without a bf16 peak.
  ClusterBench(const std::string& cluster, const CostRatio& ratio, int ranks, int microbatches);
  ~ClusterBench();

  // Costs of one of `stages_per_rank` stages of a rank, in seconds. The delay is the mean over neighbouring ranks.
  PassCosts costs(int stages_per_rank) const;
  // The step time from both engines. Thread-safe.
  ClusterTime time(const Schedule& schedule, int stages_per_rank, const Engine& simulate) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace panpipe::study
