// A proved lower bound on the step of any order with the same placement.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "schedule/schedule.hpp"

namespace panpipe {

struct StepBound {
  double makespan = 0;     // no order with this placement is shorter, with or without split backwards
  bool by_memory = false;  // the bound holds within the activations that a rank may hold; otherwise for any memory
};

// Covers orders that hold at most `held` activations (of one stage, one microbatch) on a rank. On the line, the V, waves and
// loops this is the search's bound (docs/models/searched-schedules.md). For two chains and sliced sequences it is a rank's work
// after the forwards that the rank waits for. For an order that recomputes or offloads it covers the orders that do the same.
// `ways` instead of what the order does: true for what other orders may do, first recompute, then offload.
StepBound step_bound(const Schedule& schedule, const PassCosts& costs, int held,
                     std::optional<std::pair<bool, bool>> ways = std::nullopt);

}  // namespace panpipe
