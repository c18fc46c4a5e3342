// The step times of one run, in constant memory: steady state, warm-up, quantiles, drift.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace panpipe::jobs {

// A series of any length. Up to kMost values it holds all. From then on it holds one of every 2, 4, 8, ... neighbours, chosen by
// a fixed sequence of pseudo-random numbers: equal logs give equal answers, and no period of a log can hide. At least kMost / 2
// values remain, so the median of a longer series is a value between the 49th and the 51st percentile (four standard errors).
class ThinnedSeries {
 public:
  static constexpr std::size_t kMost = std::size_t{1} << 16;

  void add(double value);
  const std::vector<double>& values() const { return values_; }  // in order
  long long count() const { return count_; }                     // of all values

 private:
  std::uint64_t random();
  void thin();

  std::vector<double> values_;
  long long count_ = 0;
  std::uint64_t stride_ = 1, at_ = 0, chosen_ = 0, state_ = 0x9E3779B97F4A7C15;
};

struct SteadyState {
  long long steps = 0;    // logged steps that count
  long long warm_up = 0;  // logged steps left out
  double median_s = 0, p10_s = 0, p90_s = 0;
  double mean_s = 0;
  // Medians of equal parts of the counted steps, in order: at most kMostLevels, of at least kLeastInLevel steps each; empty:
  // fewer than kLeastLevels such parts.
  std::vector<double> levels_s;
  static constexpr std::size_t kMostLevels = 12, kLeastLevels = 4, kLeastInLevel = 5;
  std::optional<double> drift;  // median of the last third over that of the first third, less 1; from nine steps on
};

// The rule for warm-up: the first logged step of a run; and those that follow it, up to the tenth, as long as they take more than
// 5 % longer than the median of the rest. A log of one step has no warm-up.
class StepTimes {
 public:
  void add(double seconds);
  bool empty() const { return head_.empty(); }
  long long count() const { return static_cast<long long>(head_.size()) + rest_.count(); }
  double sum_s() const { return sum_s_; }
  SteadyState steady_state() const;

 private:
  std::vector<double> head_;  // the first ten
  double sum_s_ = 0;
  ThinnedSeries rest_;
};

// Interpolated between the two nearest. `sorted` is not empty.
double quantile(const std::vector<double>& sorted, double share);

}  // namespace panpipe::jobs
