#include "costmodel/prediction/uncertainty.hpp"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"

namespace panpipe {
namespace {

constexpr double kLeastWeight = 1e-12;  // of a cell; less adds nothing
constexpr double kLeastDeviation = 1e-5;

double square(double x) { return x * x; }
double normal_below(double z) { return std::erfc(-z / std::numbers::sqrt2) / 2; }
double log_normal(double z) { return -square(z) / 2 - std::log(2 * std::numbers::pi) / 2; }

using Vector = Eigen::VectorXd;
using Matrix = Eigen::MatrixXd;
Eigen::Index index_of(std::size_t i) { return static_cast<Eigen::Index>(i); }

}  // namespace

StepDistribution::StepDistribution(std::vector<Normal> parts, double widening)
    : parts_(std::move(parts)), widening_(widening), median_(narrow_quantile(0.5)) {}

// Bisection, with Newton's steps where they stay between the ends.
double StepDistribution::narrow_quantile(double share) const {
  constexpr double kFar = 9, kEnough = 1e-7;
  double low = 0, high = 0;
  for (const Normal& part : parts_) {
    low = std::min(low, part.mean - kFar * part.deviation);
    high = std::max(high, part.mean + kFar * part.deviation);
  }
  double at = (low + high) / 2;
  for (int round = 0; round < 100 && high - low > kEnough; ++round) {
    double sum = -share, density = 0;
    for (const Normal& part : parts_) {
      const double z = (at - part.mean) / part.deviation;
      sum += part.weight * normal_below(z);
      density += part.weight * std::exp(log_normal(z)) / part.deviation;
    }
    (sum < 0 ? low : high) = at;
    const double next = at - sum / density;
    if (std::abs(next - at) < kEnough) return next;
    at = next > low && next < high ? next : (low + high) / 2;
  }
  return at;
}

double StepDistribution::quantile(double share) const {
  if (share == 0.5) return median_;
  return median_ + widening_ * (narrow_quantile(share) - median_);
}

double StepDistribution::below(double off) const {
  const double narrow = median_ + (off - median_) / widening_;
  double sum = 0;
  for (const Normal& part : parts_) sum += part.weight * normal_below((narrow - part.mean) / part.deviation);
  return sum;
}

double StepDistribution::log_density(double off) const {
  const double narrow = median_ + (off - median_) / widening_;
  double most = -1e300;
  std::vector<double> logs;
  for (const Normal& part : parts_) {
    logs.push_back(std::log(part.weight) + log_normal((narrow - part.mean) / part.deviation) - std::log(part.deviation));
    most = std::max(most, logs.back());
  }
  double sum = 0;
  for (const double log : logs) sum += std::exp(log - most);
  return most + std::log(sum) - std::log(widening_);
}

double StepDistribution::variance() const {
  double mean = 0, second = 0;
  for (const Normal& part : parts_) {
    mean += part.weight * part.mean;
    second += part.weight * (square(part.mean) + square(part.deviation));
  }
  return (second - square(mean)) * square(widening_);
}

StepDistribution StepDistribution::widened(double factor) const {
  StepDistribution wider = *this;
  wider.widening_ *= factor;
  return wider;
}

double widening_with(const std::vector<Widening>& widening, std::size_t given, StepClass of) {
  double factor = 1;
  for (const Widening& from : widening)
    if (from.given <= given) factor = from.factor[at(of)];
  return factor;
}

struct StepPosterior::Cell {
  double weight = 0, scale = 1, scatter = 0, missing = 0;
  Eigen::LLT<Matrix> covariance;  // of the given steps
  Vector pull;                    // its inverse times their deviations
};

StepPosterior::~StepPosterior() = default;
StepPosterior::StepPosterior(StepPosterior&&) noexcept = default;

StepPosterior::StepPosterior(const UncertaintyPrior& prior, const std::vector<ComparedStep>& given, StepClass of)
    : prior_(prior), given_(given), of_(of) {
  const Eigen::Index n = index_of(given_.size());
  Matrix shared(n, n);  // at scale 1
  for (Eigen::Index i = 0; i < n; ++i)
    for (Eigen::Index j = 0; j < n; ++j)
      shared(i, j) = covariance(given_[at(i)], given_[at(j)], given_[at(i)].is_step() && given_[at(j)].is_step());
  std::vector<double> logs;
  for (const Weighted& scale : prior.scale)
    for (const Weighted& scatter : prior.scatter) {
      Cell cell;
      cell.scale = scale.value;
      cell.scatter = scatter.value;
      Matrix all = scale.value * shared;
      for (Eigen::Index i = 0; i < n; ++i) all(i, i) += square(given_[at(i)].is_step() ? scatter.value : given_[at(i)].scatter);
      cell.covariance.compute(all);
      const double log_volume = cell.covariance.matrixLLT().diagonal().array().log().sum();
      for (std::size_t m = 0; m < kMissingTimes.size(); ++m) {
        const double weight = scale.weight * scatter.weight * prior.missing[at(of)][m];
        if (weight <= 0) continue;
        cell.missing = kMissingTimes[m];
        Vector off(n);
        for (Eigen::Index i = 0; i < n; ++i)
          off[i] = given_[at(i)].off - (given_[at(i)].is_step() && given_[at(i)].of == of ? cell.missing : 0);
        cell.pull = cell.covariance.solve(off);
        logs.push_back(std::log(weight) - off.dot(cell.pull) / 2 - log_volume -
                       static_cast<double>(n) * std::log(2 * std::numbers::pi) / 2);
        cells_.push_back(cell);
      }
    }
  double most = -1e300, sum = 0;
  for (const double log : logs) most = std::max(most, log);
  for (const double log : logs) sum += std::exp(log - most);
  for (std::size_t c = 0; c < cells_.size(); ++c) cells_[c].weight = std::exp(logs[c] - most) / sum;
  std::erase_if(cells_, [](const Cell& cell) { return cell.weight < kLeastWeight; });
}

double StepPosterior::covariance(const StepTraits& a, const StepTraits& b, bool steps) const {
  double sum = steps && a.same_block(b) ? square(prior_.block_spread) : 0;
  for (std::size_t d = 0; d < kDirections; ++d) sum += square(prior_.spread[d]) * a.sensitivity[d] * b.sensitivity[d];
  return sum;
}

StepDistribution StepPosterior::distribution(const StepTraits& step) const { return distribution(step, 0); }

StepDistribution StepPosterior::distribution_of(const ComparedStep& measurement) const {
  return distribution(measurement, measurement.scatter);
}

StepDistribution StepPosterior::distribution(const StepTraits& step, double scatter) const {
  const bool is_step = scatter == 0;
  Vector along(index_of(given_.size()));  // covariances with the given steps at scale 1
  for (Eigen::Index i = 0; i < along.size(); ++i) along[i] = covariance(step, given_[at(i)], is_step && given_[at(i)].is_step());
  const double own = covariance(step, step, is_step);
  const auto steps =
      static_cast<std::size_t>(std::count_if(given_.begin(), given_.end(), [](const auto& g) { return g.is_step(); }));
  std::vector<StepDistribution::Normal> parts;
  for (const Cell& cell : cells_) {
    const double mean = (is_step && step.of == of_ ? cell.missing : 0) + cell.scale * along.dot(cell.pull);
    const double explained = square(cell.scale) * along.dot(cell.covariance.solve(along));
    const double variance = cell.scale * own + square(is_step ? cell.scatter : scatter) - explained;
    parts.push_back({cell.weight, mean, std::max(kLeastDeviation, std::sqrt(std::max(0.0, variance)))});
  }
  return {std::move(parts), widening_with(prior_.widening, steps, step.of)};
}

StepCauses StepPosterior::causes(const StepTraits& step) const {
  // A cause's covariance with the whole deviation of the step, less what the given steps explain of it.
  const auto cause = [&](std::size_t c, const StepTraits& a, const StepTraits& b, bool steps) {
    if (c < kDirections) return square(prior_.spread[c]) * a.sensitivity[c] * b.sensitivity[c];
    return steps && a.same_block(b) ? square(prior_.block_spread) : 0;
  };
  Vector along(index_of(given_.size()));
  for (Eigen::Index i = 0; i < along.size(); ++i) along[i] = covariance(step, given_[at(i)], given_[at(i)].is_step());
  StepCauses shares{};
  double missing = 0, missing_squared = 0;
  for (const Cell& cell : cells_) {
    const Vector weights = cell.scale * cell.covariance.solve(along);
    for (std::size_t c = 0; c <= kDirections; ++c) {
      double left = cause(c, step, step, true);
      for (Eigen::Index i = 0; i < weights.size(); ++i)
        left -= cause(c, step, given_[at(i)], given_[at(i)].is_step()) * weights[i];
      shares[c] += cell.weight * cell.scale * left;
    }
    shares[kCauseScatter] += cell.weight * square(cell.scatter);
    missing += cell.weight * cell.missing;
    missing_squared += cell.weight * square(cell.missing);
  }
  if (step.of == of_) shares[kCauseMissing] = missing_squared - square(missing);
  double sum = 0;
  for (double& share : shares) sum += share = std::max(0.0, share);
  for (double& share : shares) share /= sum > 0 ? sum : 1;
  return shares;
}

void check_prior(const UncertaintyPrior& prior, const std::string& place) {
  const auto fail = [&](const std::string& what) { throw InputError(place + ": " + what); };
  const auto sums_to_1 = [](const auto& weights) {
    double sum = 0;
    for (const double weight : weights) {
      if (!(weight >= 0)) return false;
      sum += weight;
    }
    return std::abs(sum - 1) < 1e-3;
  };
  const auto check_grid = [&](const std::vector<Weighted>& grid, const char* name) {
    std::vector<double> weights;
    for (const Weighted& entry : grid) {
      if (!(entry.value > 0)) fail(std::string(name) + ": values are above 0");
      weights.push_back(entry.weight);
    }
    if (!sums_to_1(weights)) fail(std::string(name) + ": weights are from 0 and add up to 1");
  };
  for (const double spread : prior.spread)
    if (!(spread >= 0)) fail("a spread is from 0");
  if (!(prior.block_spread >= 0)) fail("the spread of blocks is from 0");
  for (std::size_t i = 0; i < prior.widening.size(); ++i) {
    for (const double factor : prior.widening[i].factor)
      if (!(factor > 0)) fail("widening: factors are above 0");
    if (i == 0 ? prior.widening[i].given != 0 : prior.widening[i].given <= prior.widening[i - 1].given)
      fail("widening: numbers of given steps ascend from 0");
  }
  check_grid(prior.scale, "scale");
  check_grid(prior.scatter, "scatter");
  for (const MissingWeights& weights : prior.missing)
    if (!sums_to_1(weights)) fail("missing: weights are from 0 and add up to 1");
}

Quantiles quantiles_of(double predicted_s, const StepDistribution& distribution) {
  const auto at = [&](double share) { return predicted_s * std::exp(distribution.quantile(share)); };
  return {at(0.1), at(0.5), at(0.9)};
}

}  // namespace panpipe
