// The units of the arena: what the passes of an order take under a ratio of costs, and the step that they make.
#pragma once

#include "schedule/schedule.hpp"
#include "study/arena/arena.hpp"

namespace panpipe::study {

// Stages of a rank in one chain: 1 for the line and for two chains, 2 for the V.
int stages_of_share(const Schedule& schedule);

// What one activation of the order belongs to, as a share of a rank's share of a microbatch.
double share_of_activation(const Schedule& schedule);

// Sizes of a step's microbatches in relation to their mean, under a ratio with lengths.
std::vector<double> sizes_of(const CostRatio& ratio, int microbatches);

// The costs of passes of the order's stages, with free links. Where forward and backward are cut apart, the slots behind the turn
// take the same time, and those before it the same. A head that is not cut is on the last stage of each chain.
PassCosts plain_costs(const Schedule& schedule, const CostRatio& ratio);

// An order as it is played: steps in a row if it has no flush; with unequal microbatches a chain for each of them, whose stages
// take what it takes. The rows are those of the order, action by action.
struct Played {
  Schedule schedule;
  PassCosts costs;
  int steps = 1, window = 1;       // in a row; of them averaged for the period
  std::vector<double> sizes = {};  // of a microbatch in relation to the mean, by stage of `schedule`; empty: equal
  ScheduleEvaluation evaluation = {};
  double makespan = 0, bubble = 0;  // without a flush: the period, and idle time of it
  double held = 0, held_least = 0;  // of the fullest and of the emptiest rank, in shares of a mean microbatch
  int most_activations = 0;         // of the fullest rank, counted
};
// Without the evaluation and its figures, of one step. Throws as `play` does.
Played priced(const Schedule& schedule, const CostRatio& ratio);
// The order must be legal. Throws InputError, with the reason, for what the arena has no unit for.
Played play(const Schedule& schedule, const CostRatio& ratio);

}  // namespace panpipe::study
