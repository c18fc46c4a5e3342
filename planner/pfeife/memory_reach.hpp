// How far a stage can reach before its memory alone is too much for its device: what keeps a bound over all cuts honest where
// memory is what limits them.
#pragma once

#include <vector>

#include "planner/pfeife/cut_evaluator.hpp"

namespace panpipe::planner {

// Counts no more than a stage surely holds: its parameters with their gradients and optimizer state (a tied one at its first
// use), and what it keeps of the microbatches that its rank has open at once, under the way to recompute that keeps least. Not
// temporaries, buffers of hand-overs, or the other stages of its rank.
class MemoryReach {
 public:
  explicit MemoryReach(const CutEvaluator& evaluator);

  // Whether any stage is kept from reaching as far as the units for the others let it.
  bool binds() const { return binds_; }
  // The last end that stage `position` can have when it begins with unit `first`; `first` when not even that unit fits.
  int of(std::size_t position, int first) const { return reach_[position][static_cast<std::size_t>(first)]; }

 private:
  struct Open {  // microbatches whose activations, and of which only the part for the weight gradients, are held
    int whole = 0, for_weight = 0;
  };
  void sum_units(const SearchSpace& space, int type);
  static std::vector<Open> open_of(const Schedule& schedule, int rank, int stage, bool until_weight);
  void fill(const CutEvaluator& evaluator, std::size_t position, double limit);

  int units_ = 0, type_ = -1;
  bool binds_ = false;
  Sums fixed_, for_weight_;
  std::vector<Sums> kept_;  // by way to recompute
  std::vector<std::vector<int>> reach_;
};

}  // namespace panpipe::planner
