#include "schedule/search/building_block.hpp"

#include <algorithm>
#include <cmath>

namespace panpipe::search {
namespace {

// One rank's period as a circle with the passes that are placed on it.
class Circle {
 public:
  explicit Circle(double period) : period_(period) {}

  // The first time from `from` at which `length` is free all periods long; `from` itself where nothing is (a full circle).
  double place(double from, double length) {
    double at = from;
    for (std::size_t tries = 0; tries <= 2 * taken_.size(); ++tries) {
      const double moved = past_conflict(at, length);
      if (moved == at) {
        taken_.push_back({at, length});
        return at;
      }
      at = moved;
      if (at - from > period_) break;
    }
    taken_.push_back({from, length});
    return from;
  }

 private:
  struct Slot {
    double start, length;
  };
  // `at`, or the end of a slot that [at, at + length) runs into.
  double past_conflict(double at, double length) const {
    const double tiny = 1e-9 * period_;
    for (const Slot& slot : taken_) {
      double offset = std::fmod(at - slot.start, period_);
      if (offset < 0) offset += period_;
      if (offset < slot.length - tiny) return at + slot.length - offset;
      if (offset + length > period_ + tiny) return at + period_ - offset + slot.length;
    }
    return at;
  }
  double period_;
  std::vector<Slot> taken_;
};

}  // namespace

// Qi et al. 2024, V-Min and V-Half.
int published_start(Pattern pattern, int ranks, int interval, int r, int pass) {
  const bool half = pattern == Pattern::VHalf;
  switch (pass) {
    case 0:
      return half ? 2 * r : r;
    case 2:
      return half ? 3 * ranks - r - 2 : 2 * ranks - r - 1;
    case 3:
      return half ? 3 * ranks + interval + 2 * r - 1 : 2 * ranks + interval + r;
    default:
      return half ? 6 * ranks + interval - r - 2 : 4 * ranks + interval - r - 1;
  }
}

int building_block_memory(Pattern pattern, int ranks) {
  return pattern == Pattern::VHalf ? 2 * (ranks / 2) + 2 : 2 * ((ranks + 1) / 3) + 2;  // about p and 2p/3
}

OrderProblem evened(const OrderProblem& problem) {
  OrderProblem even = problem;
  even.F = even.I = even.W = (problem.F + problem.I + problem.W) / 3;
  even.comm = 0;
  even.each.clear();
  return even;
}

Policy building_block_policy(const OrderProblem& problem, const Knobs& knobs) {
  const bool published = knobs.pattern != Pattern::Free;
  const OrderProblem p = knobs.even || knobs.plan_even || published ? evened(problem) : problem;
  Policy policy;
  policy.period = std::max(p.mean_work() / p.microbatches, 1e-300);
  policy.fit = knobs.fit;
  policy.patience = knobs.patience * policy.period;
  const double tiny = 1e-9 * policy.period;
  if (knobs.lead_at_first >= 0) policy.lead_at_first = knobs.lead_at_first * policy.period + tiny;
  if (knobs.lead >= 0) policy.lead = knobs.lead * policy.period + tiny;
  policy.weights_by_time = knobs.weights_by_time;
  policy.wanted.assign(size(p.ranks), std::vector<double>(size(3 * p.chunks)));
  policy.limit.assign(size(p.ranks), std::vector<int>(size(p.chunks)));
  std::vector<Circle> circles(size(p.ranks), Circle(policy.period));

  double time = 0;
  const auto run = [&](int stage, int kind, double length) {
    const int chunk = stage < p.ranks ? 0 : 1;
    Circle& circle = circles[size(p.rank_of(stage))];
    if (published)
      time = policy.period / 6 * published_start(knobs.pattern, p.ranks, knobs.interval, p.rank_of(stage), kind + 2 * chunk);
    if (knobs.keep_apart) time = circle.place(time, length);
    policy.wanted[size(p.rank_of(stage))][size(kind + 3 * chunk)] = time;
    time += length;
  };
  // From a stage to its neighbour: the transfer and the wait of this leg.
  const auto go = [&](int lower, int leg, int turn) {
    const bool turns = lower + 1 == p.ranks && p.chunks == 2;
    time += p.hop(lower) + policy.period * (turns ? knobs.turn[turn] : knobs.stretch[leg]);
  };
  for (int stage = 0; stage < p.stages(); ++stage) {
    run(stage, 0, p.length(Kind::F, stage));
    if (stage + 1 < p.stages()) go(stage, stage < p.ranks ? 0 : 1, 0);
  }
  time += policy.period * knobs.turn[1];
  for (int stage = p.stages(); stage-- > 0;) {
    run(stage, 1, p.length(Kind::I, stage));
    if (stage > 0) go(stage - 1, stage <= p.ranks ? 3 : 2, 2);
  }
  for (int r = 0; r < p.ranks; ++r)
    for (int chunk = p.chunks; chunk-- > 0;) {
      auto& wanted = policy.wanted[size(r)];
      const int stage = p.stage_on(r, chunk);
      const double weight = p.length(Kind::W, stage);
      double after = wanted[size(1 + 3 * chunk)] + p.length(Kind::I, stage);
      if (knobs.keep_apart) after = circles[size(r)].place(after, weight);
      wanted[size(2 + 3 * chunk)] = after;
      const double lives = after + weight - wanted[size(3 * chunk)];
      policy.limit[size(r)][size(chunk)] =
          std::max(1, static_cast<int>(std::ceil(lives / policy.period - 1e-9 + knobs.slack[chunk])));
      if (knobs.gradients_first) wanted[size(1 + 3 * chunk)] -= 1e6 * policy.period;
    }
  return policy;
}

}  // namespace panpipe::search
