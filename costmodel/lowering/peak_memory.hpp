// Peak memory of a plan's ranks without its tasks: what a search checks thousands of cuts with.
#pragma once

#include <vector>

#include "costmodel/plan/lowering_costs.hpp"

namespace panpipe {

struct PeakMemory {
  Bytes peak{0}, limit{0};
};

// Per rank, the peak that a timeline of this plan has. Only for orders of F, I, W, B and R whose ranks hold nothing back on other
// lanes: no offloads, no gathered parameters (ZeRO 3), no groups.
std::vector<PeakMemory> peak_memory(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs);

}  // namespace panpipe
