#include "planner/pfeife/cut_bound.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "planner/pfeife/stage_ticks.hpp"

namespace panpipe::planner {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

struct Part {
  double factor = 0;
  const double* sums = nullptr;
};

// result[c] = sum of factor x sums[c], four parts in a pass.
void add_up(std::vector<Part>& parts, double* result, std::size_t count) {
  std::erase_if(parts, [](const Part& part) { return part.factor == 0; });
  std::fill_n(result, count, 0.0);
  const std::vector<double> zero(parts.size() % 4 == 0 ? 0 : count, 0.0);
  while (parts.size() % 4 != 0) parts.push_back({0, zero.data()});
  for (std::size_t i = 0; i < parts.size(); i += 4) {
    const Part a = parts[i], b = parts[i + 1], c = parts[i + 2], d = parts[i + 3];
    for (std::size_t u = 0; u < count; ++u)
      result[u] += (a.factor * a.sums[u] + b.factor * b.sums[u]) + (c.factor * c.sums[u] + d.factor * d.sums[u]);
  }
}

}  // namespace

CutBound::CutBound(const CutEvaluator& evaluator)
    : reach_(evaluator),
      stages_(static_cast<std::size_t>(evaluator.stages())),
      units_(evaluator.space().units()),
      layout_(evaluator.layout()) {
  const SearchSpace& space = evaluator.space();
  for (int rank = 0; rank < space.ranks(); ++rank) {
    Sums floor(static_cast<std::size_t>(units_) + 1, 0);
    const double each = space.optimizer_per_element(space.site_of_rank(rank));
    for (std::size_t u = 0; u < floor.size(); ++u)
      floor[u] = each * static_cast<double>(space.stages().elements()[u]) + 1e12 * space.stages().given_optimizer()[u];
    elements_.push_back(std::move(floor));
  }
  stage_terms_.resize(stages_);
  hop_terms_.resize(stages_);
  for (std::size_t k = 0; k < stages_; ++k) {
    add_stage_terms(evaluator, k);
    if (k > 0) add_hops(evaluator, k);
    for (std::size_t part = 0; part < 3 && !reach_.rows().empty(); ++part)
      stage_terms_[k].push_back({layout_.memory(k, part), &reach_.parts(k)[part]});
  }
}

void CutBound::add_stage_terms(const CutEvaluator& evaluator, std::size_t position) {
  const SearchSpace& space = evaluator.space();
  const int rank = evaluator.rank_of(static_cast<int>(position)), type = space.site_of_rank(rank);
  for (const ActionKind kind : kPasses) {
    if (!evaluator.uses(kind)) continue;
    const std::optional<ActionKind> done = work_of_pass(kind, evaluator.all_in_weight(static_cast<int>(position)));
    if (done) stage_terms_[position].push_back({layout_.pass(position, kind), &space.stages().floor(*done, type)});
  }
  const Sums& optimizer = elements_[rank];
  if (optimizer.back() > 0) stage_terms_[position].push_back({layout_.optimizer(static_cast<std::size_t>(rank)), &optimizer});
}

void CutBound::add_hops(const CutEvaluator& evaluator, std::size_t position) {
  const int before = evaluator.rank_of(static_cast<int>(position) - 1), rank = evaluator.rank_of(static_cast<int>(position));
  if (before == rank) return;
  hop_terms_[position].push_back({layout_.forward(position), &evaluator.space().hops(before, rank, false)});
  hop_terms_[position].push_back({layout_.backward(position), &evaluator.space().hops(rank, before, true)});
}

void CutBound::fill(const PathWeights& weights, Tables& tables) const {
  const auto width = static_cast<std::size_t>(units_) + 2;
  tables.own.resize(stages_ - 1);
  tables.to_go.resize(stages_ - 1);
  tables.constant = weights[layout_.limit()];
  for (const Term& term : stage_terms_.back()) tables.constant += weights[term.weight] * term.sums->back();
  std::vector<Part> parts;
  const auto add = [&](double factor, const Sums* sums) {
    const auto same = std::find_if(parts.begin(), parts.end(), [&](const Part& part) { return part.sums == sums->data(); });
    if (same != parts.end()) {
      same->factor += factor;
    } else {
      parts.push_back({factor, sums->data()});
    }
  };
  for (std::size_t k = 0; k + 1 < stages_; ++k) {
    parts.clear();
    for (const Term& term : stage_terms_[k]) add(weights[term.weight], term.sums);
    for (const Term& term : stage_terms_[k + 1]) add(-weights[term.weight], term.sums);
    for (const Term& term : hop_terms_[k + 1]) add(weights[term.weight], term.sums);
    tables.own[k].resize(width);
    add_up(parts, tables.own[k].data(), static_cast<std::size_t>(units_) + 1);
    tables.own[k].back() = 0;
  }
  sum_up(tables);
}

// From the last cut to the first. The next cut stands within the reach of the stage between; its least is kept as the window
// moves.
void CutBound::sum_up(Tables& tables) const {
  const auto width = static_cast<std::size_t>(units_) + 2;
  const bool binds = reach_.binds();
  tables.from.resize(stages_ - 1);
  std::vector<std::pair<int, double>> window;  // later cuts and their sums: both ascend from the back to the front
  for (std::size_t k = stages_ - 1; k-- > 0;) {
    Sums &to_go = tables.to_go[k], &from = tables.from[k];
    to_go.assign(width, kNever);
    from.assign(width, kNever);
    const bool last = k + 2 == stages_;
    const Sums* const next = last ? nullptr : &tables.to_go[k + 1];
    const Sums& own = tables.own[k];
    double least = kNever;
    window.clear();
    std::size_t front = 0;
    for (int c = end_of(k) - 1; c > static_cast<int>(k); --c) {
      const auto at = static_cast<std::size_t>(c);
      double rest = next != nullptr ? (*next)[at + 1] : 0;
      if (binds) {
        const int reach = reach_.of(k + 1, c);
        if (last) {
          rest = reach >= units_ ? 0 : kNever;
        } else {
          const double sum = tables.from[k + 1][at + 1];
          while (window.size() > front && window.back().second >= sum) window.pop_back();
          window.emplace_back(c + 1, sum);
          while (front < window.size() && window[front].first > reach) ++front;
          rest = front < window.size() ? window[front].second : kNever;
        }
      }
      from[at] = own[at] + rest;
      least = std::min(least, from[at]);
      to_go[at] = least;
    }
    for (std::size_t c = 0; c <= k; ++c) to_go[c] = least;
  }
  tables.least = 0;
  if (stages_ == 1) return;
  tables.least = kNever;
  const int reach = binds ? reach_.of(0, 0) : units_;
  for (int c = 1; c < end_of(0) && c <= reach; ++c) tables.least = std::min(tables.least, tables.from[0][c]);
}

Cuts CutBound::cuts_of_minimum(const Tables& tables) const {
  Cuts cuts;
  int before = 0;
  for (std::size_t k = 0; k + 1 < stages_; ++k) {
    const Sums& from = tables.from[k];
    const int reach = reach_.binds() ? reach_.of(k, before) : units_;
    int best = std::max(before, static_cast<int>(k)) + 1;
    for (int c = best; c < end_of(k) && c <= reach; ++c)
      if (from[c] <= from[best]) best = c;
    cuts.push_back(best);
    before = best;
  }
  return cuts;
}

void CutBound::floors(const std::vector<double>& positions, std::vector<double>& values) const {
  values.assign(layout_.size(), 0);
  values[layout_.limit()] = 1;
  const auto at = [](const Sums& sums, double position) {
    const auto below = static_cast<std::size_t>(position);
    if (below + 1 >= sums.size()) return sums.back();
    return sums[below] + (position - static_cast<double>(below)) * (sums[below + 1] - sums[below]);
  };
  for (std::size_t k = 0; k < stages_; ++k) {
    const double first = k == 0 ? 0 : positions[k - 1];
    const double end = k < positions.size() ? positions[k] : static_cast<double>(units_);
    for (const Term& term : stage_terms_[k]) values[term.weight] += at(*term.sums, end) - at(*term.sums, first);
    for (const Term& term : hop_terms_[k]) values[term.weight] += at(*term.sums, first);
  }
}

void BestWeights::consider(const CutBound& of, const PathWeights& tried) {
  of.fill(tried, tables);
  if (tables.minimum() <= bound) return;
  bound = tables.minimum();
  weights = tried;
}

BoundGame::BoundGame(CutEvaluator& evaluator, const CutBound& bound, const Cuts& start)
    : evaluator_(evaluator), cut_bound_(bound) {
  mean_.assign(evaluator.layout().size(), 0);
  double time = 0;
  paths_.push_back(evaluator.critical_path(start, time));
  regrets_.push_back(0);
}

void BoundGame::add(const PathWeights& path) {
  paths_.push_back(path);
  regrets_.push_back(std::max(1.0, *std::max_element(regrets_.begin(), regrets_.end())));  // played at once
}

// Regret matching: paths are played in proportion to how much better they would have done so far.
void BoundGame::mix(PathWeights& weights) const {
  weights.assign(mean_.size(), 0);
  const double sum = std::accumulate(regrets_.begin(), regrets_.end(), 0.0);
  for (std::size_t p = 0; p < paths_.size(); ++p) {
    const double share = sum > 0 ? regrets_[p] / sum : 1.0 / static_cast<double>(paths_.size());
    if (share == 0) continue;
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] += share * paths_[p][i];
  }
}

// A path that is longer by what these cuts exceed a limit by, for cuts that keep to the limit shorter: a bound as the path is.
PathWeights BoundGame::with_memory(const Cuts& cuts, PathWeights path, double time) const {
  constexpr double kPrice = 2;  // of the whole limit, in step times: the mean takes less of it where that is better
  const MemoryReach::Row* const row = cut_bound_.reach().most_exceeded(cuts);
  if (row == nullptr) return path;
  const PathLayout at = evaluator_.layout();
  const double price = kPrice * time / row->limit;
  for (const auto& [position, factors] : row->held)
    for (std::size_t part = 0; part < 3; ++part) path[at.memory(position, part)] += price * factors[part];
  path[at.limit()] -= price * row->limit;
  return path;
}

void BoundGame::learn(const Cuts& cuts, const PathWeights& path) {
  if (std::find(paths_.begin(), paths_.end(), path) == paths_.end()) {
    paths_.push_back(path);
    regrets_.push_back(0);
  }
  cut_bound_.floors({cuts.begin(), cuts.end()}, floors_);
  const double played = dot(mixed_, floors_);
  for (std::size_t p = 0; p < paths_.size(); ++p) regrets_[p] = std::max(0.0, regrets_[p] + dot(paths_[p], floors_) - played);
  rounds_played_ += 1;
  mean_weight_ += rounds_played_;
  for (std::size_t i = 0; i < mean_.size(); ++i) mean_[i] += rounds_played_ * mixed_[i];
}

std::vector<PathWeights> BoundGame::weightings(std::size_t most) const {
  std::vector<PathWeights> result;
  if (!best_.weights.empty()) result.push_back(best_.weights);
  std::vector<std::size_t> order(paths_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return regrets_[a] > regrets_[b]; });
  for (std::size_t i = 0; i < order.size() && result.size() < most; ++i) result.push_back(paths_[order[i]]);
  return result;
}

}  // namespace panpipe::planner
