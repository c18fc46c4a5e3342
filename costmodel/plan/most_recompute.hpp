// What the stages of a plan recompute.
#pragma once

#include <algorithm>
#include <vector>

#include "costmodel/plan/plan.hpp"

namespace panpipe {

// The mode of the stages that recompute most.
inline Recompute most_recompute(const Plan& plan) {
  Recompute most = Recompute::None;
  for (const StagePlan& stage : plan.stages) most = std::max(most, stage.recompute);
  return most;
}

// How many of its first blocks each stage recomputes, in the order of the model; empty: no stage states a number.
inline std::vector<int> first_blocks(const Plan& plan) {
  std::vector<int> blocks;
  for (const int stage : plan.schedule.chains.front()) blocks.push_back(plan.stages[stage].recompute_first);
  if (std::all_of(blocks.begin(), blocks.end(), [](int first) { return first == 0; })) blocks.clear();
  return blocks;
}

}  // namespace panpipe
