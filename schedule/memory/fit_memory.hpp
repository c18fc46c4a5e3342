// Makes an order hold no more activations than a limit: decides for each activation whether it stays, is made again or waits in
// the host's memory, and moves passes where that shortens the step.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "schedule/schedule.hpp"

namespace panpipe {

struct MemoryLimit {
  std::vector<int> activations;  // of one stage and microbatch (or slice), that each rank may hold; at least 1
  bool recompute = true;         // R may be used
  bool offload = true;           // OFFLOAD and RELOAD may be used
  double effort = 1;             // factor on the usual work of the search

  bool alike() const { return std::count(activations.begin(), activations.end(), most()) == std::ssize(activations); }
  int most() const { return *std::max_element(activations.begin(), activations.end()); }
  bool covers(const ScheduleEvaluation& evaluation) const {
    return std::equal(activations.begin(), activations.end(), evaluation.peak_activations.begin(), std::greater_equal<>());
  }
};

struct FittedOrder {
  Schedule order;
  ScheduleEvaluation evaluation;
};

// Returns an order of the same passes that holds no more; the base itself where it fits. nullopt if the rules of eviction find
// none. The base must be legal, without transfers of its own.
std::optional<FittedOrder> fitted(const Schedule& base, const PassCosts& costs, const MemoryLimit& limit);

// Shortens the step of an order that fits. Deterministic: the number of timed passes limits the search.
FittedOrder improved(FittedOrder start, const PassCosts& costs, const MemoryLimit& limit);

}  // namespace panpipe
