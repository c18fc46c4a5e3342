// The mode of the stages that recompute most.
#pragma once

#include <algorithm>

#include "costmodel/plan/plan.hpp"

namespace panpipe {

inline Recompute most_recompute(const Plan& plan) {
  Recompute most = Recompute::None;
  for (const StagePlan& stage : plan.stages) most = std::max(most, stage.recompute);
  return most;
}

}  // namespace panpipe
