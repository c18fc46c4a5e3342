#include "exec/engine/profile/robust_median.hpp"

#include <algorithm>
#include <cmath>

namespace panpipe::exec {
namespace {

// A quantile of sorted values, linear between neighbours.
double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(at));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

RobustMedian robust_median(std::vector<double> samples) {
  RobustMedian result;
  if (samples.empty()) return result;
  std::sort(samples.begin(), samples.end());
  const double lower = quantile(samples, 0.25), upper = quantile(samples, 0.75), fence = 1.5 * (upper - lower);
  const std::size_t before = samples.size();
  std::erase_if(samples, [&](double sample) { return sample < lower - fence || sample > upper + fence; });
  result.dropped = static_cast<int>(before - samples.size());
  result.median = quantile(samples, 0.5);
  if (result.median > 0) result.spread = (quantile(samples, 0.75) - quantile(samples, 0.25)) / result.median;
  return result;
}

}  // namespace panpipe::exec
