// Weights that lie in the host's memory and come to a device for the turns of their stage (docs/models/memory-terms.md).
#pragma once

#include <vector>

#include "costmodel/cost/zero_and_optimizer.hpp"
#include "costmodel/plan/plan.hpp"
#include "schedule/travelling_weights.hpp"

namespace panpipe {

// Under ZeRO 3 they come with the gathers instead.
inline bool weights_on_host(const Scenario& scenario, const Degrees& degrees) {
  return scenario.offload.parameters && zero_in_effect(scenario.framework, degrees) < 3;
}
// Between the ranks, instead of from the host.
inline bool weights_go_round(const Scenario& scenario, const Plan& plan) {
  return !scenario.offload.parameters && weights_travel(plan.schedule);
}
// A rank has not the weights of all its stages, in either way: the ranks hold each parameter once.
inline bool streams_weights(const Scenario& scenario, const Plan& plan) {
  return weights_on_host(scenario, plan) || weights_go_round(scenario, plan);
}

// A run of passes of one stage in a rank's row. A device holds the weights of two stages: while one runs, those of the next come.
struct WeightTurn {
  int stage = 0;
  std::size_t first = 0, last = 0;  // positions of its passes in the row
  bool comes = false;               // the weights are not there
  bool leaves = false;              // they go behind it, for those of another stage or at the end of the step
  int room_after = -1;              // turn whose end makes room for the weights that come; -1: there is room
};
constexpr std::size_t kWeightPieces = 8;  // of a stage's weights on their way, with activations in between
// Of the first of them.
constexpr std::int64_t bytes_of_pieces(std::int64_t all, std::size_t pieces) {
  return all * static_cast<std::int64_t>(pieces) / static_cast<std::int64_t>(kWeightPieces);
}
std::vector<WeightTurn> weight_turns(const std::vector<Action>& row);

}  // namespace panpipe
