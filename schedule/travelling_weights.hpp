// Orders whose weights go round the ranks while activations stay (WeiPipe): each rank has a chain of its own, and runs all stages
// of its microbatches. The weights of a stage, and the gradients that its backwards add to, reach the ranks in turn.
#pragma once

#include "schedule/schedule.hpp"

namespace panpipe {

// Every rank has one chain, of as many stages as there are ranks, and there are several.
bool weights_travel(const Schedule& schedule);

// Turns of such an order, in which all ranks send on what they have. The weights of forwards begin to travel in turn 0, those of
// backwards when the first rank has run all its forwards; rank r begins r turns later.
struct RingTurns {
  int ranks = 1, of_rank = 1;                                 // microbatches of a rank
  int length() const { return of_rank * ranks + ranks - 1; }  // of the turns of forwards, as of those of backwards
  int all() const { return ranks + length(); }
  int forward(int rank, int nth) const { return rank + nth; }  // a rank's nth forward is in this turn
  int backward(int rank, int nth) const { return ranks + rank + nth; }
};

}  // namespace panpipe
