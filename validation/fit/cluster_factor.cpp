#include "validation/fit/cluster_factor.hpp"

#include <algorithm>
#include <cmath>

namespace panpipe::validation {
namespace {

// A cluster takes 30 % more or less than a calibration of another: A100 servers of 15 publishers lie within.
constexpr double kFactorSpread = 0.3;
constexpr double kMostFactor = 1.1;  // of the logarithm: three times
constexpr double kFactorEnough = 1e-3;

Vector factored(const RowModel& model, const Vector& starts, double log_factor) {
  Vector logs = starts;
  for (std::size_t p = 0; p < model.parameters().size(); ++p) {
    const FitParameter& parameter = *model.parameters()[p];
    const double moved = starts[at_index(p)] + parameter.time * log_factor;
    logs[at_index(p)] = std::clamp(moved, std::log(parameter.low), std::log(parameter.high));
  }
  return logs;
}

}  // namespace

FactoredStart factored_start(const RowModel& model, const Vector& weights, const RobustLoss& loss, const Vector& starts) {
  const auto cost = [&](double log_factor) {
    const Vector r = model.residuals(factored(model, starts, log_factor), weights);
    double sum = std::pow(loss.scale * log_factor / kFactorSpread, 2);
    for (Eigen::Index i = 0; i < r.size(); ++i) sum += weights[i] * std::pow(loss.root(r[i]), 2);
    return sum;
  };
  // Golden section: the loss has one minimum, since longer times make all steps longer.
  const double golden = (std::sqrt(5.0) - 1) / 2;
  double low = -kMostFactor, high = kMostFactor;
  double a = high - golden * (high - low), b = low + golden * (high - low);
  double at_a = cost(a), at_b = cost(b);
  while (high - low > kFactorEnough && !model.stopped()) {
    if (at_a < at_b) {
      high = b, b = a, at_b = at_a;
      at_a = cost(a = high - golden * (high - low));
    } else {
      low = a, a = b, at_a = at_b;
      at_b = cost(b = low + golden * (high - low));
    }
  }
  const double found = (low + high) / 2;
  return {factored(model, starts, found), found};
}

}  // namespace panpipe::validation
