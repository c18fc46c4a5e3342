#include "validation/error_sizes.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace panpipe::validation {
namespace {

// Of sorted values, linear between the two nearest ranks.
double quantile(const std::vector<double>& values, double share) {
  const double at = share * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (values[high] - values[low]) * (at - static_cast<double>(low));
}

}  // namespace

double mean_of(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

ErrorSizes error_sizes(const std::vector<double>& errors) {
  ErrorSizes sizes;
  if (errors.empty()) return sizes;
  std::vector<double> absolute;
  for (const double error : errors) absolute.push_back(std::abs(error));
  sizes.rows = static_cast<int>(errors.size());
  sizes.bias = mean_of(errors);
  sizes.mean = mean_of(absolute);
  sizes.worst_at = static_cast<std::size_t>(std::max_element(absolute.begin(), absolute.end()) - absolute.begin());
  sizes.worst = absolute[sizes.worst_at];
  std::sort(absolute.begin(), absolute.end());
  sizes.median = quantile(absolute, 0.5);
  sizes.p90 = quantile(absolute, 0.9);
  return sizes;
}

}  // namespace panpipe::validation
