#include "planner/pfeife/cut_search.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

namespace panpipe::planner {
namespace {

constexpr std::size_t kFew = 16, kMany = 128;  // moves looked at before one is made

bool in_order(const Cuts& cuts, int units) {
  for (std::size_t k = 0; k < cuts.size(); ++k)
    if (cuts[k] <= (k == 0 ? 0 : cuts[k - 1]) || cuts[k] >= units) return false;
  return true;
}

// `value` at share `numerator` / `denominator` of the way, rounded.
int scaled(int value, int numerator, int denominator) {
  return static_cast<int>(std::lround(static_cast<double>(value) * numerator / denominator));
}

}  // namespace

Cuts even_cuts(const Sums& sums, int stages) {
  const int units = static_cast<int>(sums.size()) - 1;
  Cuts cuts;
  for (int k = 1; k < stages; ++k) {
    const double goal = sums.front() + (sums.back() - sums.front()) * k / stages;
    auto cut = static_cast<int>(std::lower_bound(sums.begin(), sums.end(), goal) - sums.begin());
    if (cut > 0 && cut <= units && goal - sums[static_cast<std::size_t>(cut) - 1] < sums[cut] - goal) --cut;
    cuts.push_back(std::clamp(cut, cuts.empty() ? 1 : cuts.back() + 1, units - (stages - k)));
  }
  return cuts;
}

CutSearch::CutSearch(const SearchSpace& space, const Schedule& schedule, const Cuts& start, Stopped stopped)
    : evaluator_(space, schedule, start),
      cut_bound_(evaluator_),
      descent_(evaluator_, cut_bound_, start),
      game_(evaluator_, cut_bound_, start),
      stopped_(std::move(stopped)) {}

void CutSearch::tighten(int rounds, double enough) {
  if (stopped_()) return;
  descent_.run(rounds, enough, [this](const Cuts& cuts, double time) {
    ++counts_.evaluated;
    consider(cuts, time);
  });
}

std::vector<CutSearch::Move> CutSearch::moves(bool wide) const {
  constexpr std::array<int, 9> kShifts = {1, 2, 3, 4, 5, 6, 8, 10, 15};
  constexpr int kNear = 2;
  using Kind = Move::Kind;
  const auto cuts = static_cast<std::size_t>(evaluator_.stages()) - 1;
  std::vector<Move> result;
  for (const int size : kShifts) {
    if (wide ? size <= kNear : size > kNear) continue;
    for (std::size_t k = 0; k < cuts; ++k) {
      for (const int shift : {size, -size}) {
        result.push_back({Kind::Alone, k, 0, shift, 0});
        if (k + 1 < cuts) result.push_back({Kind::Right, k, 0, shift, 0});
        if (k > 0) result.push_back({Kind::Left, k, 0, shift, 0});
        if (cuts > 1) result.push_back({Kind::Rescaled, k, 0, shift, 0});
      }
    }
  }
  constexpr std::size_t kMostForPairs = 16;  // two cuts moved by themselves: where limits leave little room
  for (std::size_t i = 0; wide && limited_ && cuts <= kMostForPairs && i < cuts; ++i)
    for (std::size_t k = i + 1; k < cuts; ++k)
      for (const auto& [first, second] : {std::pair(1, 1), {1, -1}, {-1, 1}, {-1, -1}, {1, 2}, {2, 1}, {-1, -2}, {-2, -1}})
        result.push_back({Kind::Two, i, k, first, second});
  return result;
}

bool CutSearch::moved(const Cuts& from, const Move& move, Cuts& to) const {
  const int units = evaluator_.space().units();
  const std::size_t k = move.cut;
  to = from;
  to[k] += move.shift;
  if (to[k] < 1 || to[k] >= units) return false;
  const int here = to[k];
  switch (move.kind) {
    case Move::Kind::Alone:
      break;
    case Move::Kind::Right:
      for (std::size_t i = k + 1; i < to.size(); ++i) to[i] += move.shift;
      break;
    case Move::Kind::Left:
      for (std::size_t i = 0; i < k; ++i) to[i] += move.shift;
      break;
    case Move::Kind::Rescaled:
      for (std::size_t i = 0; i < k; ++i) to[i] = scaled(from[i], here, from[k]);
      for (std::size_t i = k + 1; i < to.size(); ++i) to[i] = units - scaled(units - from[i], units - here, units - from[k]);
      break;
    case Move::Kind::Two:
      to[move.other] += move.other_shift;
      break;
  }
  return in_order(to, units);
}

// The moves in turn, some side by side: the best of these is made if it is better, and the next ones start from there.
bool CutSearch::climb(const std::vector<Move>& moves, std::size_t some_at_once, bool recompute) {
  // Where memory limits what is better, the first better move often leads to where none is left: there the best of all.
  const std::size_t side_by_side = limited_ ? moves.size() : std::min(some_at_once, moves.size());
  constexpr std::int64_t kMostLooks = 400;
  const double start = best();
  const Modes modes = recompute ? best_.modes : Modes{};
  most_looks_ = looks_ + kMostLooks;
  std::vector<Cuts> some;
  std::vector<double> times;
  std::size_t at = 0;
  for (std::size_t since = 0; since < moves.size() && !stopped_();) {
    some.resize(side_by_side);
    std::size_t count = 0;
    for (; since < moves.size() && count < side_by_side; ++since, at = (at + 1) % moves.size())
      if (moved(best_.cuts, moves[at], some[count])) ++count;
    some.resize(count);
    evaluator_.replay(some, times, {modes});
    counts_.evaluated += static_cast<std::int64_t>(count);
    const double before = best();
    while (best() == before) {
      const auto least = std::min_element(times.begin(), times.end());
      if (least == times.end() || *least >= best()) break;
      consider(some[least - times.begin()], *least, modes);
      *least = kNone;
    }
    if (best() < before) since = 0;
  }
  most_looks_ = std::numeric_limits<std::int64_t>::max();
  return best() < start;
}

void CutSearch::improve(const Cuts& from) {
  if (!from.empty() || evaluator_.stages() == 1) {
    consider(from, evaluator_.replay(from));
    ++counts_.evaluated;
  }
  if (best() == kNone && !stopped_()) repair_all();
  if (best() == kNone) return;
  const bool best_of_all = limited_;
  if (!best_of_all) start_ = best_;
  climb_on(kFew);
  if (limited_ && !best_of_all) improve_again();
}

void CutSearch::climb_on(std::size_t some_at_once) {
  const std::vector<Move> near = moves(false);
  const auto better = [&](const std::vector<Move>& some) {
    return climb(some, some_at_once, true) || (!best_.modes.empty() && climb(some, some_at_once, false));
  };
  while (!stopped_() && (better(near) || better(moves(true)))) {
  }
}

void CutSearch::improve_again() {
  if (start_.cuts.empty()) return;
  const Found known = std::exchange(best_, std::exchange(start_, {}));
  climb_on(kMany);
  if (best() >= known.value) best_ = known;
}

void CutSearch::tighten_with_memory(int rounds, double enough) {
  if (!cut_bound_.reach().counts() || stopped_()) return;
  const std::int64_t before = game_.replays();
  if (!descent_.weights().empty()) game_.add(descent_.weights());
  game_.play(rounds, enough, [this](const Cuts& cuts, double time) { consider(cuts, time); });
  counts_.evaluated += game_.replays() - before;
}

std::vector<PathWeights> CutSearch::pruning_paths() {
  constexpr std::size_t kPaths = 6;
  std::vector<PathWeights> result = game_.weightings(kPaths);
  if (!descent_.weights().empty()) result.push_back(descent_.weights());
  return result;
}

struct Descent {
  std::vector<CutBound::Tables> tables;
  std::vector<Sums> partial;  // per cut: sums of each weighting up to it
  Cuts cuts;
  std::vector<Cuts> leaves;
  std::vector<double> times;
  double enough = 0;
  std::int64_t steps = 0;
};

void CutSearch::try_leaves(Descent& descent) {
  evaluator_.replay(descent.leaves, descent.times);
  const auto count = static_cast<std::int64_t>(descent.leaves.size()), looks = looks_;
  counts_.evaluated += count;
  for (std::size_t i = 0; i < descent.leaves.size(); ++i) consider(descent.leaves[i], descent.times[i]);
  descent.steps -= 1000 * (looks_ - looks) + 64 * count;  // the memory of a plan takes as long
  descent.leaves.clear();
}

// False when the steps ran out.
bool CutSearch::descend(std::size_t cut, int at, Descent& descent) {
  const std::size_t last = descent.cuts.size();
  const auto limit = [&] { return std::min(best(), descent.enough); };
  if (cut == last) {
    // Assigned: in a copy g++ 14 takes the space and the elements from two looks at the vector, and warns that they could differ.
    descent.leaves.emplace_back() = descent.cuts;
    if (descent.leaves.size() < static_cast<std::size_t>(kBatch) && last > 0) return true;
    try_leaves(descent);
    return descent.steps > 0 && !stopped_();
  }
  const MemoryReach& reach = cut_bound_.reach();
  const int end = reach.binds() ? std::min(cut_bound_.end_of(cut), reach.of(cut, at - 1) + 1) : cut_bound_.end_of(cut);
  for (int c = at; c < end; ++c) {
    const auto here = static_cast<std::size_t>(c);
    bool excluded = false, all_later = false;
    for (std::size_t j = 0; j < descent.tables.size() && !excluded; ++j) {
      const CutBound::Tables& tables = descent.tables[j];
      const double before = descent.partial[cut][j];
      const double rest = tables.from[cut][here] - tables.own[cut][here];
      descent.partial[cut + 1][j] = before + tables.own[cut][here];
      all_later = before + tables.to_go[cut][here] >= limit();
      excluded = all_later || descent.partial[cut + 1][j] + rest >= limit();
    }
    if (--descent.steps <= 0) return false;
    if (excluded) ++counts_.excluded;
    if (all_later) break;
    if (excluded) continue;
    descent.cuts[cut] = c;
    if (!descend(cut + 1, c + 1, descent)) return false;
  }
  return true;
}

bool CutSearch::enumerate(double enough, std::int64_t steps) {
  constexpr int kRounds = 60;  // of the game: its paths exclude what the relaxed problem's mean path does not
  const std::int64_t before = game_.replays();
  game_.play(kRounds, std::min(best(), enough), [this](const Cuts& cuts, double time) { consider(cuts, time); });
  counts_.evaluated += game_.replays() - before;
  if (bound() >= std::min(best(), enough)) return true;
  Descent descent;
  descent.enough = enough;
  descent.steps = left_out_ ? steps / 10 : steps;  // then there is no proof to be had, only better plans
  const std::vector<PathWeights> weightings = pruning_paths();
  descent.tables.resize(weightings.size());
  const auto cuts = static_cast<std::size_t>(evaluator_.stages()) - 1;
  descent.cuts.resize(cuts);
  descent.partial.assign(cuts + 1, Sums(weightings.size(), 0));
  for (std::size_t j = 0; j < weightings.size(); ++j) {
    cut_bound_.fill(weightings[j], descent.tables[j]);
    descent.partial[0][j] = descent.tables[j].constant;
  }
  const bool finished = descend(0, 1, descent);
  if (finished) try_leaves(descent);
  if (finished && !left_out_ && !stopped_()) proved_bound_ = std::max(proved_bound_, std::min(best(), enough));
  return finished;
}

}  // namespace panpipe::planner
