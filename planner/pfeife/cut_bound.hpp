// Lower bounds of a schedule's step time over all cuts at once. docs/models/planning.md gives the argument.
//
// A path through the step is a sum of stage costs, and a stage's cost is a difference of sums over units, so the path's length is
// a sum of one function per cut. The least such sum over all ordered cuts is found by a dynamic programme of stages x units
// steps. Any weighted mean of paths is a lower bound, too; the best mean is the equilibrium of a game between paths and cuts.
#pragma once

#include <limits>
#include <vector>

#include "planner/pfeife/cut_evaluator.hpp"
#include "planner/pfeife/memory_reach.hpp"

namespace panpipe::planner {

class CutBound {
 public:
  explicit CutBound(const CutEvaluator& evaluator);

  // The functions of one weighting, and the least sum of the rest: from[k][c] covers cuts k, k+1 ... with cut k at c; to_go[k][c]
  // has cut k at c or later. Cuts are counted from 0. Cuts that do not fit in memory are infinite.
  struct Tables {
    std::vector<Sums> own, from, to_go;
    double constant = 0, least = 0;
    double minimum() const { return constant + least; }
  };
  void fill(const PathWeights& weights, Tables& tables) const;
  Cuts cuts_of_minimum(const Tables& tables) const;
  // The least value of each cost, in the layout of a path. Cuts may lie inside units.
  void floors(const std::vector<double>& positions, std::vector<double>& values) const;
  const MemoryReach& reach() const { return reach_; }
  // A cut may stand in [cut + 1, end_of(cut)), since every stage has a unit.
  int end_of(std::size_t cut) const { return units_ + 1 - static_cast<int>(stages_ - 1 - cut); }

 private:
  struct Term {
    std::size_t weight = 0;
    const Sums* sums = nullptr;
  };
  void add_stage_terms(const CutEvaluator& evaluator, std::size_t position);
  void add_hops(const CutEvaluator& evaluator, std::size_t position);

  void sum_up(Tables& tables) const;

  MemoryReach reach_;
  std::size_t stages_ = 0;
  int units_ = 0;
  PathLayout layout_;
  std::vector<std::vector<Term>> stage_terms_;  // per position: cost = sum of weight x (sums[end] - sums[first])
  std::vector<std::vector<Term>> hop_terms_;    // per cut: cost = sum of weight x sums[cut]
  std::vector<Sums> elements_;                  // per rank: the optimizer's floor, in ticks
};

// The weighting with the best bound of those that were tried.
struct BestWeights {
  CutBound::Tables tables;  // of the last one
  PathWeights weights;
  double bound = 0;  // ticks

  void consider(const CutBound& of, const PathWeights& tried);
};

// The game between paths and cuts, played for a number of rounds at a time.
class BoundGame {
 public:
  BoundGame(CutEvaluator& evaluator, const CutBound& bound, const Cuts& start);

  // Plays until the bound reaches `enough` (ticks) or the rounds are over. Calls found(cuts, step time) for cuts on the way.
  template <class Found>
  void play(int rounds, double enough, Found found);
  double bound() const { return best_.bound; }  // ticks
  void add(const PathWeights& path);            // adds a strategy: a path, or a mean of paths
  // Weightings for pruning a search: the best mean, and the paths with the largest weight in it.
  std::vector<PathWeights> weightings(std::size_t most) const;
  std::int64_t replays() const { return replays_; }

 private:
  void mix(PathWeights& weights) const;
  PathWeights with_memory(const Cuts& cuts, PathWeights path, double time) const;
  void learn(const Cuts& cuts, const PathWeights& path);

  CutEvaluator& evaluator_;
  const CutBound& cut_bound_;
  BestWeights best_;
  std::vector<PathWeights> paths_;
  std::vector<double> regrets_, floors_;
  PathWeights mixed_, mean_;
  double rounds_played_ = 0, mean_weight_ = 0;
  std::int64_t replays_ = 0;
};

template <class Found>
void BoundGame::play(int rounds, double enough, Found found) {
  constexpr int kMeanEvery = 8;
  const auto answer_to = [&](const PathWeights& weights) {
    best_.consider(cut_bound_, weights);
    if (bound() == std::numeric_limits<double>::infinity()) return;  // nothing fits
    const Cuts cuts = cut_bound_.cuts_of_minimum(best_.tables);
    double time = 0;
    const PathWeights path = evaluator_.critical_path(cuts, time);
    ++replays_;
    found(cuts, time);
    learn(cuts, with_memory(cuts, path, time));
  };
  for (int round = 0; round < rounds && bound() < enough; ++round) {
    mix(mixed_);
    answer_to(mixed_);
    if (static_cast<int>(rounds_played_) % kMeanEvery != 0 || mean_weight_ == 0) continue;
    PathWeights mean = mean_;
    for (double& weight : mean) weight /= mean_weight_;
    answer_to(mean);
  }
}

}  // namespace panpipe::planner
