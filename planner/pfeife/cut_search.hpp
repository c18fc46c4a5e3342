// The best cuts for one schedule: a bound over all cuts, a local search, and an enumeration that the bound keeps short.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "planner/pfeife/soft_descent.hpp"

namespace panpipe::planner {

struct CutCounts {
  std::int64_t evaluated = 0;  // replays
  std::int64_t excluded = 0;   // cuts, or beginnings of cuts, that a bound or a memory limit excluded
  void operator+=(const CutCounts& other) {
    evaluated += other.evaluated;
    excluded += other.excluded;
  }
};

class CutSearch {
 public:
  using Stopped = std::function<bool()>;
  CutSearch(const SearchSpace& space, const Schedule& schedule, const Cuts& start, Stopped stopped);

  static constexpr double kNone = std::numeric_limits<double>::infinity();
  // Solves the relaxed problem further; ends early when nothing better than `enough` ticks is possible.
  void tighten(int rounds, double enough);
  // Improves what is known, from the best so far and from these cuts; repairs cuts that do not fit.
  void improve(const Cuts& from);
  // Tries all cuts that may take less than `enough` ticks, up to a number of steps. True when it came to the end: proved.
  bool enumerate(double enough, std::int64_t steps);

  double best() const { return best_; }  // ticks; kNone while nothing fits
  const Cuts& cuts() const { return best_cuts_; }
  double bound() const { return std::max({proved_bound_, descent_.bound(), game_.bound()}); }  // nothing that fits takes less
  // The cuts that come nearest to fitting, and the share of the limit that they use.
  const Cuts& nearest() const { return nearest_cuts_; }
  double nearest_share() const { return nearest_share_; }
  const CutCounts& counts() const { return counts_; }
  CutEvaluator& evaluator() { return evaluator_; }

 private:
  bool fits(const Cuts& cuts);
  void meet(const Cuts& cuts, double time);  // takes it when it is better and fits
  Cuts shrunk(const Cuts& from);             // ranks that need too much get less of the work, until all fit or nothing helps
  void repair(const Cuts& from);
  std::vector<PathWeights> pruning_paths();  // to prune with: the relaxed problem's path, and critical paths
  std::vector<Cuts> neighbours(const Cuts& cuts, bool wide) const;
  bool try_all(const std::vector<Cuts>& all);  // takes the best that fits; true when it is better
  bool descend(std::size_t cut, int at, struct Descent& descent);

  CutEvaluator evaluator_;
  CutBound cut_bound_;
  SoftDescent descent_;
  BoundGame game_;
  Stopped stopped_;
  CutCounts counts_;
  double best_ = kNone, nearest_share_ = kNone;
  Cuts best_cuts_, nearest_cuts_;
  double proved_bound_ = 0;
  bool limited_ = false;  // something better did not fit
};

// Cuts at equal shares of a sum over units, at least one unit each.
Cuts even_cuts(const Sums& sums, int stages);

}  // namespace panpipe::planner
