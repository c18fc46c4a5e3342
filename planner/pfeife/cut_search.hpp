// Finds the best cuts for one schedule: a bound over all cuts, a local search, and an enumeration that the bound shortens.
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
  std::int64_t excluded = 0;   // cuts, or prefixes of cuts, excluded by a bound or a memory limit
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
  // Continues to solve the relaxed problem; stops early if nothing better than `enough` ticks is possible.
  void tighten(int rounds, double enough);
  // Tightens the bound with memory constraints on the stages. Slower than all other steps.
  void tighten_with_memory(int rounds, double enough);
  // Improves the best known cuts, starting from the best so far and from these; repairs cuts that do not fit.
  void improve(const Cuts& from);
  // Repeats the local search from the same start with the best of many moves instead of few, which reaches another optimum.
  void improve_again();
  // Tries all cuts that may take less than `enough` ticks, up to a number of steps. Returns true if it finished, which proves the
  // best.
  bool enumerate(double enough, std::int64_t steps);

  double best() const { return best_.value; }  // ticks; kNone while no cuts fit
  const Cuts& cuts() const { return best_.cuts; }
  const Modes& modes() const { return best_.modes; }  // recompute mode of each stage; empty = all in the fastest mode
  double bound() const { return std::max({proved_bound_, descent_.bound(), game_.bound()}); }  // no fitting cuts take less, ticks
  struct Found {
    double value = kNone;  // ticks, or the share of a memory limit
    Cuts cuts;
    Modes modes;
  };
  const Found& nearest() const { return nearest_; }  // the cuts closest to fitting, with their share of the limit

  const CutCounts& counts() const { return counts_; }
  CutEvaluator& evaluator() { return evaluator_; }

 private:
  // Memory: cut_memory.cpp.
  bool fits(const Cuts& cuts, const Modes& modes);
  void keep_nearest(double share, const Cuts& cuts, const Modes& modes);
  void consider(const Cuts& cuts, double time, const Modes& modes = {});  // keeps it if it is better and fits
  void recompute(const Cuts& cuts);                                       // keeps the fastest recompute modes that fit, if better
  std::vector<Modes> ways_to_recompute(const Cuts& cuts);                 // the least recompute that fits
  std::vector<Modes> modes_of_a_rank(std::size_t stages);
  Cuts shrunk(const Cuts& from, const Modes& modes);  // moves work away from ranks over their limit until all fit
  void repair(const Cuts& from, const Modes& modes);
  void repair_all();
  Modes all_in(Recompute mode) const { return Modes(static_cast<std::size_t>(evaluator_.stages()), mode); }

  std::vector<PathWeights> pruning_paths();  // the relaxed problem's path, and critical paths
  // A step of the local search: one cut alone, with all cuts after it, with all before it, with the gaps on both sides rescaled,
  // or two cuts.
  struct Move {
    enum class Kind : std::uint8_t { Alone, Right, Left, Rescaled, Two } kind{};
    std::size_t cut = 0, other = 0;
    int shift = 0, other_shift = 0;
  };
  std::vector<Move> moves(bool wide) const;
  bool moved(const Cuts& from, const Move& move, Cuts& to) const;  // false if that is not possible
  // Repeats until no move improves; returns true if one did.
  bool climb(const std::vector<Move>& moves, std::size_t some_at_once, bool recompute);
  void climb_on(std::size_t some_at_once);
  bool descend(std::size_t cut, int at, struct Descent& descent);
  void try_leaves(struct Descent& descent);

  CutEvaluator evaluator_;
  CutBound cut_bound_;
  SoftDescent descent_;
  BoundGame game_;
  Stopped stopped_;
  CutCounts counts_;
  Found start_;  // start of the local search
  Found best_, nearest_;
  double proved_bound_ = 0;
  bool limited_ = false;    // a better result did not fit
  bool left_out_ = false;   // there were too many combinations of modes to try all
  std::int64_t looks_ = 0;  // number of memory checks of plans
  std::int64_t most_looks_ =
      std::numeric_limits<std::int64_t>::max();  // limit during a local search: beyond it no recompute modes are searched
};

// Cuts at equal shares of a sum over units, with at least one unit per stage.
Cuts even_cuts(const Sums& sums, int stages);

}  // namespace panpipe::planner
