// Makes an order hold no more activations than a limit: decides for each activation whether it stays, is made again or waits in
// the host's memory, and moves passes where that shortens the step.
#pragma once

#include <optional>

#include "schedule/schedule.hpp"

namespace panpipe {

struct MemoryLimit {
  int activations = 1;    // of one stage and microbatch (or slice), that a rank may hold; at least 1
  bool recompute = true;  // R may be used
  bool offload = true;    // OFFLOAD and RELOAD may be used
  double effort = 1;      // factor on the usual work of the search
};

// Returns an order of the same passes that holds no more; the base itself where it fits. nullopt if the rules of eviction find
// none. The base must be legal, without transfers of its own.
std::optional<Schedule> fitted(const Schedule& base, const PassCosts& costs, const MemoryLimit& limit);

// Shortens the step of an order that fits. Deterministic: the number of timed passes limits the search.
Schedule improved(Schedule schedule, const PassCosts& costs, const MemoryLimit& limit);

}  // namespace panpipe
