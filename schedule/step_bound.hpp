// How short a step an order of the same placement could have: a bound that is proved, for any order.
#pragma once

#include <optional>
#include <string>

#include "schedule/schedule.hpp"

namespace panpipe {

struct StepBound {
  double makespan = 0;     // no order with this placement is shorter, backwards split or not
  bool by_memory = false;  // within the activations that a rank may hold; else in any memory
};

// Of orders that hold at most `held` activations (of one stage, one microbatch) on a rank. On the line, the V, waves and loops it
// is the bound of the search (docs/models/searched-schedules.md); elsewhere (two chains, sliced sequences) a rank's work behind
// the forwards that it waits for.
StepBound step_bound(const Schedule& schedule, const PassCosts& costs, int held);

}  // namespace panpipe
