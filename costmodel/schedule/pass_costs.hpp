// What an action costs under plain costs.
#pragma once

#include "costmodel/schedule/schedule.hpp"

namespace panpipe {

// Passes and copies; what exchanges parameters or messages takes no time of its own.
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
    case ActionKind::Offload:
      return costs.offload;
    case ActionKind::Reload:
      return costs.reload.value_or(costs.offload);
    default:
      return 0;
  }
}

}  // namespace panpipe
