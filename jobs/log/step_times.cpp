#include "jobs/log/step_times.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace panpipe::jobs {
namespace {

constexpr std::size_t kMostWarmUp = 10;
constexpr double kSettled = 1.05;  // of the median
constexpr std::size_t kLeastForDrift = 9;

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

std::vector<double> levels_of(const std::vector<double>& values) {
  const std::size_t parts = std::min(SteadyState::kMostLevels, values.size() / SteadyState::kLeastInLevel);
  std::vector<double> levels;
  if (parts < SteadyState::kLeastLevels) return levels;
  const auto place = [&](std::size_t part) { return values.begin() + static_cast<std::ptrdiff_t>(values.size() * part / parts); };
  for (std::size_t part = 0; part < parts; ++part) levels.push_back(median_of({place(part), place(part + 1)}));
  return levels;
}

}  // namespace

double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

// xorshift64 (Marsaglia 2003)
std::uint64_t ThinnedSeries::random() {
  state_ ^= state_ << 13;
  state_ ^= state_ >> 7;
  state_ ^= state_ << 17;
  return state_;
}

void ThinnedSeries::add(double value) {
  ++count_;
  if (at_ == chosen_) values_.push_back(value);
  if (++at_ == stride_) {
    at_ = 0;
    chosen_ = stride_ == 1 ? 0 : random() % stride_;
    if (values_.size() >= kMost) thin();
  }
}

void ThinnedSeries::thin() {
  for (std::size_t i = 0; i < values_.size() / 2; ++i) values_[i] = values_[2 * i + (random() >> 63)];
  values_.resize(values_.size() / 2);
  stride_ *= 2;
  chosen_ = random() % stride_;
}

void StepTimes::add(double seconds) {
  sum_s_ += seconds;
  if (head_.size() < kMostWarmUp)
    head_.push_back(seconds);
  else
    rest_.add(seconds);
}

SteadyState StepTimes::steady_state() const {
  SteadyState state;
  if (head_.empty()) return state;
  std::vector<double> used;
  if (head_.size() == 1) {
    used = head_;
  } else {
    used.assign(head_.begin() + 1, head_.end());
    used.insert(used.end(), rest_.values().begin(), rest_.values().end());
    const double settled = kSettled * median_of(used);
    std::size_t slow = 0;
    while (slow + 1 < used.size() && slow + 1 < head_.size() && used[slow] > settled) ++slow;
    used.erase(used.begin(), used.begin() + static_cast<std::ptrdiff_t>(slow));
    state.warm_up = static_cast<long long>(slow) + 1;
  }
  state.steps = static_cast<long long>(head_.size()) + rest_.count() - state.warm_up;
  if (used.size() >= kLeastForDrift) {
    const auto third = static_cast<std::ptrdiff_t>(used.size() / 3);
    state.drift = median_of({used.end() - third, used.end()}) / median_of({used.begin(), used.begin() + third}) - 1;
  }
  state.levels_s = levels_of(used);
  state.mean_s = std::accumulate(used.begin(), used.end(), 0.0) / static_cast<double>(used.size());
  std::sort(used.begin(), used.end());
  state.median_s = quantile(used, 0.5), state.p10_s = quantile(used, 0.1), state.p90_s = quantile(used, 0.9);
  return state;
}

}  // namespace panpipe::jobs
