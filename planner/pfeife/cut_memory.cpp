// Memory in the search over cuts: whether cuts fit, how to recompute where they do not, and cuts that fit.
#include <algorithm>
#include <cmath>

#include "planner/pfeife/cut_search.hpp"

namespace panpipe::planner {

void CutSearch::keep_nearest(double share, const Cuts& cuts, const Modes& modes) {
  if (share < nearest_.value) nearest_ = {share, cuts, modes};
}

bool CutSearch::fits(const Cuts& cuts, const Modes& modes) {
  ++looks_;
  const double share = evaluator_.memory_share(cuts, modes);
  keep_nearest(share, cuts, modes);
  return share <= 1;
}

void CutSearch::consider(const Cuts& cuts, double time, const Modes& modes) {
  if (time >= best()) return;
  if (fits(cuts, modes)) {
    best_ = {time, cuts, modes};
    return;
  }
  limited_ = true;
  ++counts_.excluded;
  if (modes.empty() && evaluator_.space().stages().modes().size() > 1) recompute(cuts);
}

// The recompute modes that the stages of a rank may combine, the least recompute first: all combinations if they are few;
// otherwise a later stage recomputes no more than an earlier one, which holds its activations longer.
std::vector<Modes> CutSearch::modes_of_a_rank(std::size_t stages) {
  constexpr std::size_t kMostWays = 27;
  const std::vector<Recompute>& modes = evaluator_.space().stages().modes();
  std::vector<Modes> ways = {{}};
  const bool all = std::pow(static_cast<double>(modes.size()), static_cast<double>(stages)) <= static_cast<double>(kMostWays);
  left_out_ = left_out_ || !all;
  for (std::size_t k = 0; k < stages; ++k) {
    std::vector<Modes> longer;
    for (const Modes& way : ways) {
      for (const Recompute mode : modes) {
        if (!all && !way.empty() && mode > way.back()) continue;
        longer.push_back(way);
        longer.back().push_back(mode);
      }
    }
    ways = std::move(longer);
  }
  const auto much = [](const Modes& way) {
    int sum = 0;
    for (const Recompute mode : way) sum += static_cast<int>(mode);
    return sum;
  };
  std::stable_sort(ways.begin(), ways.end(), [&](const Modes& a, const Modes& b) { return much(a) < much(b); });
  return ways;
}

// A rank's memory depends on its own stages only, and more recompute is never faster: of each rank the ways that fit and do no
// more than another one, and all combinations of these.
std::vector<Modes> CutSearch::ways_to_recompute(const Cuts& cuts) {
  constexpr std::size_t kMost = 256;
  const auto stages = static_cast<std::size_t>(evaluator_.stages()), ranks = static_cast<std::size_t>(evaluator_.space().ranks());
  std::vector<std::vector<std::size_t>> of_rank(ranks);  // positions
  for (std::size_t k = 0; k < stages; ++k) of_rank[evaluator_.rank_of(static_cast<int>(k))].push_back(k);
  std::vector<std::vector<Modes>> fitting(ranks);
  const auto more = [](const Modes& way, const Modes& than) {
    return std::equal(way.begin(), way.end(), than.begin(), [](Recompute a, Recompute b) { return a >= b; });
  };
  std::size_t most_of_a_rank = 0;
  for (const auto& positions : of_rank) most_of_a_rank = std::max(most_of_a_rank, positions.size());
  for (const Modes& way : modes_of_a_rank(most_of_a_rank)) {
    Modes modes(stages);
    for (const std::vector<std::size_t>& positions : of_rank)
      for (std::size_t j = 0; j < positions.size(); ++j) modes[positions[j]] = way[j];
    ++looks_;
    const std::vector<double> shares = evaluator_.memory_shares(cuts, modes);
    keep_nearest(*std::max_element(shares.begin(), shares.end()), cuts, modes);
    for (std::size_t rank = 0; rank < ranks; ++rank)
      if (shares[rank] <= 1 &&
          std::none_of(fitting[rank].begin(), fitting[rank].end(), [&](const Modes& known) { return more(way, known); }))
        fitting[rank].push_back(way);
  }
  std::vector<Modes> result = {Modes(stages)};
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::vector<Modes> longer;
    for (const Modes& known : result) {
      for (const Modes& way : fitting[rank]) {
        if (longer.size() >= kMost) left_out_ = true;
        if (longer.size() >= kMost) break;
        longer.push_back(known);
        for (std::size_t j = 0; j < of_rank[rank].size(); ++j) longer.back()[of_rank[rank][j]] = way[j];
      }
    }
    result = std::move(longer);
  }
  return result;
}

void CutSearch::recompute(const Cuts& cuts) {
  if (looks_ >= most_looks_ || stopped_()) return;
  const std::vector<Modes> ways = ways_to_recompute(cuts);
  if (ways.empty()) return;
  std::vector<double> times;
  evaluator_.replay(std::vector<Cuts>(ways.size(), cuts), times, ways);
  counts_.evaluated += static_cast<std::int64_t>(ways.size());
  const std::size_t least = static_cast<std::size_t>(std::min_element(times.begin(), times.end()) - times.begin());
  if (times[least] < best()) best_ = {times[least], cuts, ways[least]};
}

Cuts CutSearch::shrunk(const Cuts& from, const Modes& modes) {
  constexpr int kRounds = 60;
  constexpr double kMostChange = 0.85, kGrowth = 1.01;  // of a rank's share of the work in a round
  const Sums& work = descent_.work();
  const auto stages = static_cast<std::size_t>(evaluator_.stages());
  std::vector<double> shares(stages);
  for (std::size_t k = 0; k < stages; ++k)
    shares[k] = work[k < from.size() ? from[k] : evaluator_.space().units()] - work[k == 0 ? 0 : from[k - 1]];
  Cuts cuts = from, best = from;
  double least = kNone;
  for (int round = 0; round < kRounds && !stopped_(); ++round) {
    const std::vector<double> used = evaluator_.memory_shares(cuts, modes);
    ++counts_.excluded;
    const double most = *std::max_element(used.begin(), used.end());
    if (most < least) {
      least = most;
      best = cuts;
    }
    if (most <= 1) break;
    for (std::size_t k = 0; k < stages; ++k) {
      const double of_rank = used[evaluator_.rank_of(static_cast<int>(k))];
      shares[k] *= of_rank > 1 ? std::max(kMostChange, 1 / of_rank) : of_rank < kMostChange ? kGrowth : 1.0;
    }
    Sums until(1, 0);
    for (const double share : shares) until.push_back(until.back() + share);
    cuts.clear();
    for (std::size_t k = 1; k < stages; ++k) {
      const double goal = until[k] / until.back() * work.back();
      const auto at = static_cast<int>(std::lower_bound(work.begin(), work.end(), goal) - work.begin());
      cuts.push_back(
          std::clamp(at, cuts.empty() ? 1 : cuts.back() + 1, evaluator_.space().units() - static_cast<int>(stages - k)));
    }
  }
  return best;
}

// Goes to the neighbour that comes nearest to fitting until one fits.
void CutSearch::repair(const Cuts& from, const Modes& modes) {
  Cuts now = from;
  double share = evaluator_.memory_share(now, modes);
  std::vector<Move> all = moves(false);
  const std::vector<Move> wide = moves(true);
  all.insert(all.end(), wide.begin(), wide.end());
  while (share > 1 && !stopped_()) {
    Cuts next, cuts;
    double least = share;
    for (const Move& move : all) {
      if (!moved(now, move, cuts)) continue;
      const double of_neighbour = evaluator_.memory_share(cuts, modes);
      ++counts_.excluded;
      if (of_neighbour >= least) continue;
      least = of_neighbour;
      next = cuts;
    }
    if (next.empty()) break;
    now = next;
    share = least;
  }
  const double time = evaluator_.replay(now);
  ++counts_.evaluated;
  consider(now, time);
}

// From a start that does not fit: without recompute, and, where that may be, with as much of it as there is.
void CutSearch::repair_all() {
  for (const Recompute mode : evaluator_.space().stages().modes()) {
    const Modes modes = all_in(mode);
    const Cuts relaxed = shrunk(descent_.rounded(), modes);
    if (bound() == kNone) continue;  // nothing fits: what comes nearest is known now
    repair(relaxed, modes);
    if (best() == kNone && !nearest_.cuts.empty() && nearest_.cuts != relaxed) repair(Cuts(nearest_.cuts), modes);
  }
}

}  // namespace panpipe::planner
