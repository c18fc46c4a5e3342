// A pipeline on a cluster: measures a schedule's step on it under a ratio of costs.
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

  // Costs of the order's passes, in seconds. The delay is the mean over neighbouring ranks, a copy takes its share of the links
  // to the host when all ranks copy.
  PassCosts costs(const Schedule& schedule) const;
  // The step time from both engines; without a flush the period. Thread-safe.
  ClusterTime time(const Schedule& schedule, const Engine& simulate) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace panpipe::study
