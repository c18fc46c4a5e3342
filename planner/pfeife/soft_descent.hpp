// The relaxed problem: cuts may lie inside units, and the longest path is softened to a mean of all paths of nearly the same
// length. The best cuts lie near its solution, and its mean path is a weighting that bounds all cuts from below.
#pragma once

#include "planner/pfeife/cut_bound.hpp"

namespace panpipe::planner {

class SoftDescent {
 public:
  SoftDescent(CutEvaluator& evaluator, const CutBound& bound, const Cuts& start);

  // Continues for a number of rounds with falling temperature. Stops early when the bound reaches `enough` (ticks). Calls
  // found(cuts, step time) for cuts on the way.
  template <class Found>
  void run(int rounds, double enough, Found found) {
    for (int round = 0; round < rounds && bound() < enough; ++round) {
      step();
      if (++steps_ % kLookEvery != 0 && round + 1 < rounds) continue;
      look();
      const Cuts cuts = rounded();
      found(cuts, evaluator_.replay(cuts));
    }
  }
  double bound() const { return best_.bound; }  // ticks: no cuts take less
  const PathWeights& weights() const { return best_.weights; }
  const Sums& work() const { return work_; }  // before each unit, forward and backward
  Cuts rounded() const;                       // the current solution, rounded to units

 private:
  static constexpr int kLookEvery = 10;
  void place();  // computes positions from shares
  void step();
  void look();  // computes the bound of the paths so far

  CutEvaluator& evaluator_;
  const CutBound& bound_of_;
  BestWeights best_;
  Sums work_;                      // forward and backward before each unit
  std::vector<double> shares_;     // of the work, per stage
  std::vector<double> positions_;  // of the cuts, in units
  std::vector<double> floors_, steps_of_, last_off_;
  double least_share_ = 0;
  PathWeights path_, mean_;
  double mean_weight_ = 0, temperature_, time_ = 0;
  int steps_ = 0;
};

}  // namespace panpipe::planner
