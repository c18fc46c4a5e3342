#include "schedule/search/building_block_search.hpp"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "base/bits.hpp"
#include "schedule/search/random.hpp"
#include "schedule/search/rows.hpp"

namespace panpipe::search {
namespace {

constexpr int kFewestTries = 6, kMostTries = 2000;
constexpr std::size_t kElite = 6;
constexpr double kAny = 1e6;  // slack without limit

// Blocks without waits in all styles, and the published ones.
std::vector<Knobs> plain_blocks(const OrderProblem& problem) {
  std::vector<Knobs> blocks;
  for (const double fit : {1.0, 0.5, 0.0})
    for (const double slack : {kAny, 0.0, 1.0})
      for (const bool first : {true, false}) {
        Knobs knobs;
        knobs.gradients_first = first;
        knobs.fit = fit;
        knobs.slack[0] = knobs.slack[1] = slack;
        blocks.push_back(knobs);
      }
  if (problem.chunks < 2) return blocks;
  std::vector<Knobs> published;
  for (const double slack : {0.0, 1.0, kAny})
    for (const int interval : {0, 2, 3})
      for (const Pattern pattern : {Pattern::VHalf, Pattern::VMin})
        for (const bool even : {true, false})
          for (const double lead : {-1.0, 0.0}) {
            Knobs knobs;
            knobs.pattern = pattern;
            knobs.interval = interval;
            knobs.slack[0] = knobs.slack[1] = slack;
            knobs.plan_even = even;
            knobs.lead = lead;
            published.push_back(knobs);
          }
  blocks.insert(blocks.begin() + 2, published.begin(), published.end());
  return blocks;
}

class RandomBlocks {
 public:
  explicit RandomBlocks(int chunks) : chunks_(chunks), random_(1) {}

  int below(int n) { return random_.below(n); }

  Knobs any() {
    Knobs knobs;
    for (double& stretch : knobs.stretch) stretch = wait();
    for (double& turn : knobs.turn) turn = wait();
    for (double& slack : knobs.slack) slack = kSlacks[below(8)];
    knobs.fit = kFits[below(8)];
    knobs.patience = below(2) == 0 ? 0 : below(7) / 12.0;
    knobs.lead = lead();
    knobs.lead_at_first = lead();
    knobs.weights_by_time = below(3) == 0;
    knobs.keep_apart = below(4) != 0;
    knobs.even = below(3) == 0;
    knobs.plan_even = below(4) == 0;
    if (chunks_ == 2 && below(4) == 0) knobs.pattern = below(2) == 0 ? Pattern::VHalf : Pattern::VMin;
    knobs.interval = below(4);
    knobs.gradients_first = below(3) == 0;
    return knobs;
  }

  // About two of the block's knobs are turned.
  Knobs near(Knobs knobs) {
    const Knobs other = any();
    const auto turn = [&](auto& mine, const auto& theirs) {
      if (below(9) == 0) mine = theirs;
    };
    for (int i = 0; i < 4; ++i) turn(knobs.stretch[i], other.stretch[i]);
    for (int i = 0; i < 3; ++i) turn(knobs.turn[i], other.turn[i]);
    for (int i = 0; i < 2; ++i) turn(knobs.slack[i], other.slack[i]);
    turn(knobs.fit, other.fit);
    turn(knobs.patience, other.patience);
    turn(knobs.lead, other.lead);
    turn(knobs.lead_at_first, other.lead_at_first);
    turn(knobs.weights_by_time, other.weights_by_time);
    turn(knobs.keep_apart, other.keep_apart);
    turn(knobs.even, other.even);
    turn(knobs.plan_even, other.plan_even);
    turn(knobs.pattern, other.pattern);
    turn(knobs.interval, other.interval);
    turn(knobs.gradients_first, other.gradients_first);
    return knobs;
  }

 private:
  static constexpr double kSlacks[] = {-1, -0.5, 0, 0, 0.5, 1, 2, kAny};
  static constexpr double kFits[] = {1, 1, 1, 0.75, 0.5, 0.25, 0, 0.01};

  double wait() { return below(2) == 0 ? 0 : below(13) / 12.0; }
  double lead() { return below(3) > 0 ? -1 : below(9) / 6.0; }

  int chunks_;
  Random random_;
};

// Keeps the best of different scores; of equal ones the newer, whose neighbours have not been tried. `rows` are made when they
// are kept.
template <typename MakeRows>
void remember(std::vector<TriedBlock>& elite, const Knobs& knobs, const Score& score, const MakeRows& rows) {
  const auto at = std::find_if(elite.begin(), elite.end(), [&](const TriedBlock& c) { return !c.score.better_than(score); });
  if (at != elite.end() && !score.better_than(at->score)) {
    at->knobs = knobs;
    return;
  }
  if (at == elite.end() && elite.size() == kElite) return;
  elite.insert(at, {knobs, score, rows()});
  if (elite.size() > kElite) elite.pop_back();
}

// A policy as it is planned: many knobs give the same one, and it gives one order.
struct Planned {
  Policy policy;
  bool even = false;
  bool operator==(const Planned&) const = default;
};

struct PlannedHash {
  std::size_t operator()(const Planned& planned) const {
    std::uint64_t state = planned.even ? 1 : 0;
    const auto add = [&](std::uint64_t bits) { state = (state ^ bits) * 0x9E3779B97F4A7C15u ^ (state >> 29); };
    for (const std::vector<double>& rank : planned.policy.wanted)
      for (const double time : rank) add(bits_of(time));
    for (const std::vector<int>& rank : planned.policy.limit)
      for (const int limit : rank) add(static_cast<std::uint64_t>(limit));
    for (const double value : {planned.policy.fit, planned.policy.patience, planned.policy.lead_at_first, planned.policy.lead})
      add(bits_of(value));
    return state;
  }
};

// What came of it.
struct Outcome {
  bool stuck = false;
  Score score;
};

bool is_planned_as_timed(const Knobs& knobs) { return knobs.patience == 0 && !knobs.plan_even; }

TriedBlock order_of(const OrderProblem& problem, const Knobs& knobs, const Policy& policy) {
  TriedBlock candidate{knobs, {}, {}};
  candidate.rows = list_schedule(knobs.plan_even ? evened(problem) : problem, policy, candidate.score);
  if (!candidate.rows.empty() && !is_planned_as_timed(knobs)) RowTimer(problem).run(candidate.rows, candidate.score);
  return candidate;
}

}  // namespace

TriedBlock try_building_block(const OrderProblem& problem, const Knobs& knobs) {
  return order_of(problem, knobs, building_block_policy(problem, knobs));
}

std::vector<TriedBlock> search_building_blocks(const OrderProblem& problem, const Score& bound, double passes) {
  const int tries = static_cast<int>(
      std::clamp(passes / problem.passes(), double{kFewestTries}, std::max(double{kFewestTries}, problem.effort * kMostTries)));
  const std::vector<Knobs> plain = plain_blocks(problem);
  RandomBlocks random(problem.chunks);
  std::vector<TriedBlock> elite;
  std::unordered_map<Planned, Outcome, PlannedHash> tried;
  for (int i = 0; i < tries; ++i) {
    Knobs knobs;
    if (i < static_cast<int>(plain.size())) {
      knobs = plain[i];
    } else if (random.below(4) == 0) {
      knobs = random.any();
    } else {
      knobs = random.near(elite[random.below(static_cast<int>(elite.size()))].knobs);
    }
    const auto [known, is_new] = tried.try_emplace({building_block_policy(problem, knobs), knobs.plan_even});
    const Policy& policy = known->first.policy;
    Outcome& outcome = known->second;
    if (is_new) {
      TriedBlock candidate = order_of(problem, knobs, policy);
      outcome = {candidate.rows.empty(), candidate.score};
      if (!outcome.stuck) remember(elite, knobs, outcome.score, [&] { return std::move(candidate.rows); });
    } else if (!outcome.stuck) {
      remember(elite, knobs, outcome.score, [&] { return order_of(problem, knobs, policy).rows; });
    }
    if (elite.empty()) continue;
    if (!bound.better_than(elite.front().score)) break;
  }
  return elite;
}

}  // namespace panpipe::search
