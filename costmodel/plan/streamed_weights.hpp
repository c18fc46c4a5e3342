// Weights that lie in the host's memory and come to a device for the turns of their stage (docs/models/memory-terms.md).
#pragma once

#include <vector>

#include "costmodel/cost/zero_and_optimizer.hpp"
#include "costmodel/plan/plan.hpp"

namespace panpipe {

// Under ZeRO 3 they come with the gathers instead.
inline bool streams_weights(const Scenario& scenario, const Degrees& degrees) {
  return scenario.offload.parameters && zero_in_effect(scenario.framework, degrees) < 3;
}

// A run of passes of one stage in a rank's row. A device holds the weights of two stages: while one runs, those of the next come.
struct WeightTurn {
  int stage = 0;
  std::size_t first = 0, last = 0;  // positions of its passes in the row
  bool comes = false;               // the weights are not there
  bool leaves = false;              // they go behind it, for those of another stage or at the end of the step
  int room_after = -1;              // turn whose end makes room for the weights that come; -1: there is room
};
std::vector<WeightTurn> weight_turns(const std::vector<Action>& row);

}  // namespace panpipe
