// The duration of an action under plain costs.
#pragma once

#include <fmt/format.h>

#include "base/error.hpp"
#include "schedule/schedule.hpp"

namespace panpipe {

// Passes and copies take time; exchanges of parameters and messages take none of their own.
inline double cost_of(ActionKind kind, const PassCosts& costs) {
  switch (kind) {
    case ActionKind::F:
    case ActionKind::R:
      return costs.F;  // a recompute runs the forward again
    case ActionKind::I:
      return costs.I;
    case ActionKind::W:
      return costs.W;
    case ActionKind::B:
      return costs.B.value_or(costs.I + costs.W);
    case ActionKind::S:
      return costs.S;
    case ActionKind::T:
      return costs.T;
    case ActionKind::Offload:
      return costs.offload;
    case ActionKind::Reload:
      return costs.reload.value_or(costs.offload);
    default:
      return 0;
  }
}

// The same with the costs of the action's own stage.
inline double cost_of(const Action& action, const PassCosts& costs) {
  if (costs.stages.empty() || !action.is_compute()) return cost_of(action.kind, costs);
  const PassCosts::Stage& stage = costs.stages[action.stage];
  switch (action.kind) {
    case ActionKind::I:
      return stage.I;
    case ActionKind::W:
      return stage.W;
    case ActionKind::B:
      return costs.B.value_or(stage.I + stage.W);
    default:
      return stage.F;
  }
}

inline void check_stage_costs(const PassCosts& costs, int stages) {
  if (!costs.stages.empty() && costs.stages.size() != static_cast<std::size_t>(stages))
    throw InputError(fmt::format("costs are given for {} stages, but the schedule has {}", costs.stages.size(), stages));
}

}  // namespace panpipe
