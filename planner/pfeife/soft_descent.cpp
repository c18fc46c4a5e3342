#include "planner/pfeife/soft_descent.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace panpipe::planner {
namespace {

// As a share of the step time: paths this much shorter than the longest still count. From coarse to fine, by a factor per round.
constexpr double kHot = 0.02, kCold = 0.001, kCooling = 0.95;
// Exponents by which a share of the work changes in a round: each share has a step of its own.
constexpr double kFirstStep = 0.1, kLeastStep = 1e-4, kMostStep = 0.4, kLonger = 1.2, kShorter = 0.6;
constexpr double kGain = 2;       // a slope that is off by half of the mean uses the whole step
constexpr double kForget = 0.93;  // per round: later paths weigh more in the mean

}  // namespace

SoftDescent::SoftDescent(CutEvaluator& evaluator, const CutBound& bound, const Cuts& start)
    : evaluator_(evaluator), bound_of_(bound), temperature_(kHot) {
  work_ = evaluator.space().stages().work(evaluator.space().site_of_rank(0));
  const double all = work_.back() > 0 ? work_.back() : 1;
  double before = 0;
  for (std::size_t k = 0; k <= start.size(); ++k) {
    const double until = k < start.size() ? work_[start[k]] / all : 1;
    shares_.push_back(std::max(until - before, 1e-6));
    before = until;
  }
  mean_.assign(evaluator.layout().size(), 0);
  least_share_ = 0.5 / static_cast<double>(work_.size() - 1);  // a stage has a unit
  steps_of_.assign(shares_.size(), kFirstStep);
  last_off_.assign(shares_.size(), 0);
  place();
}

void SoftDescent::place() {
  const double sum = std::accumulate(shares_.begin(), shares_.end(), 0.0);
  positions_.clear();
  double until = 0;
  for (std::size_t k = 0; k < shares_.size(); ++k) {
    shares_[k] /= sum;
    until += shares_[k];
    if (k + 1 == shares_.size()) break;
    const double goal = until * work_.back();
    const auto after = std::upper_bound(work_.begin() + 1, work_.end() - 1, goal);
    const auto u = static_cast<double>(after - work_.begin());
    const double size = *after - *(after - 1);
    positions_.push_back(std::clamp(u - 1 + (size > 0 ? (goal - *(after - 1)) / size : 0.5), u - 1, u));
  }
}

Cuts SoftDescent::rounded() const {
  const int units = evaluator_.space().units(), stages = evaluator_.stages();
  Cuts cuts;
  for (std::size_t k = 0; k < positions_.size(); ++k) {
    const int least = cuts.empty() ? 1 : cuts.back() + 1;
    cuts.push_back(std::clamp(static_cast<int>(std::lround(positions_[k])), least, units - (stages - 1 - static_cast<int>(k))));
  }
  return cuts;
}

// Exponentiated gradient on the shares of the work.
void SoftDescent::step() {
  bound_of_.floors(positions_, floors_);
  if (time_ <= 0) time_ = evaluator_.replay(rounded());
  if (time_ <= 0) return;
  time_ = evaluator_.soft_path(rounded(), floors_, temperature_ * time_, path_);
  const PathLayout at = evaluator_.layout();
  std::vector<double> slope(shares_.size());
  double mean_slope = 0;
  for (std::size_t k = 0; k < shares_.size(); ++k) {
    double spent = 0;
    for (const ActionKind kind : kPasses) spent += path_[at.pass(k, kind)] * floors_[at.pass(k, kind)];
    slope[k] = spent / shares_[k];
    mean_slope += spent;
  }
  // A step gets longer while its slope stays on one side of the mean, and shorter when it crosses.
  for (std::size_t k = 0; mean_slope > 0 && k < shares_.size(); ++k) {
    const double off = slope[k] / mean_slope - 1;
    steps_of_[k] = std::clamp(steps_of_[k] * (off * last_off_[k] >= 0 ? kLonger : kShorter), kLeastStep, kMostStep);
    last_off_[k] = off;
    shares_[k] *= std::exp(-steps_of_[k] * std::clamp(kGain * off, -1.0, 1.0));
  }
  for (double& share : shares_) share = std::max(share, least_share_);
  place();
  mean_weight_ = mean_weight_ * kForget + 1;
  for (std::size_t i = 0; i < mean_.size(); ++i) mean_[i] = mean_[i] * kForget + path_[i];
  temperature_ = std::max(kCold, temperature_ * kCooling);
}

void SoftDescent::look() {
  PathWeights mean = mean_;
  for (double& weight : mean) weight /= mean_weight_;
  best_.consider(bound_of_, mean);
  best_.consider(bound_of_, path_);
}

}  // namespace panpipe::planner
