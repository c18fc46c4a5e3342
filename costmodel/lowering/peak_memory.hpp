// Peak memory of a plan's ranks, computed without its tasks, for searches that check thousands of cuts.
#pragma once

#include <vector>

#include "costmodel/plan/lowering_costs.hpp"

namespace panpipe {

struct PeakMemory {
  Bytes peak{0}, limit{0};
};

// Per rank, the peak in a timeline of this plan. Supports only orders of F, I, W, B and R in which no other lane holds memory: no
// offloads, no gathered parameters (ZeRO 3), no groups.
std::vector<PeakMemory> peak_memory(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs);

}  // namespace panpipe
