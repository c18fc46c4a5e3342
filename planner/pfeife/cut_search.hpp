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
  // The bound again where memory keeps stages from reaching far: against cuts that keep to that. Takes longer than all else.
  void tighten_with_memory(int rounds, double enough);
  // Improves what is known, from the best so far and from these cuts; repairs cuts that do not fit.
  void improve(const Cuts& from);
  // Once more from where that began, by the best of many moves instead of few: it ends elsewhere.
  void improve_again();
  // Tries all cuts that may take less than `enough` ticks, up to a number of steps. True when it came to the end: proved.
  bool enumerate(double enough, std::int64_t steps);

  double best() const { return best_; }  // ticks; kNone while nothing fits
  const Cuts& cuts() const { return best_cuts_; }
  const Modes& modes() const { return best_modes_; }  // how its stages recompute; empty = all in the fastest way
  double bound() const { return std::max({proved_bound_, descent_.bound(), game_.bound()}); }  // nothing that fits takes less
  // The cuts that come nearest to fitting, and the share of the limit that they use.
  const Cuts& nearest() const { return nearest_cuts_; }
  const Modes& nearest_modes() const { return nearest_modes_; }
  double nearest_share() const { return nearest_share_; }
  const CutCounts& counts() const { return counts_; }
  CutEvaluator& evaluator() { return evaluator_; }

 private:
  // What memory asks for: cut_memory.cpp.
  bool fits(const Cuts& cuts, const Modes& modes);
  void meet(const Cuts& cuts, double time, const Modes& modes = {});  // takes it when it is better and fits
  void recompute(const Cuts& cuts);                                   // takes the fastest way to recompute that fits, if better
  std::vector<Modes> ways_to_recompute(const Cuts& cuts);             // the least that fits
  std::vector<Modes> modes_of_a_rank(std::size_t stages);
  Cuts shrunk(const Cuts& from, const Modes& modes);  // ranks that need too much get less of the work, until all fit
  void repair(const Cuts& from, const Modes& modes);
  void repair_all();
  Modes all_in(Recompute mode) const { return Modes(static_cast<std::size_t>(evaluator_.stages()), mode); }

  std::vector<PathWeights> pruning_paths();  // to prune with: the relaxed problem's path, and critical paths
  // A step of the local search: one cut by itself, it and all after it, it and all before it, it with the gaps on both sides
  // rescaled, or two cuts.
  struct Move {
    enum class Kind : std::uint8_t { Alone, Right, Left, Rescaled, Two } kind{};
    std::size_t cut = 0, other = 0;
    int shift = 0, other_shift = 0;
  };
  std::vector<Move> moves(bool wide) const;
  bool moved(const Cuts& from, const Move& move, Cuts& to) const;  // false when that is not possible
  // Until none of the moves is better; true when one was.
  bool climb(const std::vector<Move>& moves, std::size_t some_at_once, bool recompute);
  void climb_on(std::size_t some_at_once);
  bool descend(std::size_t cut, int at, struct Descent& descent);

  CutEvaluator evaluator_;
  CutBound cut_bound_;
  SoftDescent descent_;
  BoundGame game_;
  Stopped stopped_;
  CutCounts counts_;
  struct Found {
    double time = kNone;
    Cuts cuts;
    Modes modes;
  };
  Found start_;  // of the local search
  double best_ = kNone, nearest_share_ = kNone;
  Cuts best_cuts_, nearest_cuts_;
  Modes best_modes_, nearest_modes_;
  double proved_bound_ = 0;
  bool limited_ = false;    // something better did not fit
  bool left_out_ = false;   // ways to recompute were too many to try all
  std::int64_t looks_ = 0;  // at the memory of a plan
  std::int64_t most_looks_ =
      std::numeric_limits<std::int64_t>::max();  // while a local search goes on: no way to recompute is looked for beyond
};

// Cuts at equal shares of a sum over units, at least one unit each.
Cuts even_cuts(const Sums& sums, int stages);

}  // namespace panpipe::planner
