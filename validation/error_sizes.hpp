// How far off predictions are: statistics of relative errors, predicted / measured - 1.
#pragma once

#include <cstddef>
#include <vector>

namespace panpipe::validation {

// Fractions; 0 without errors.
struct ErrorSizes {
  int rows = 0;
  double mean = 0, median = 0, p90 = 0, worst = 0;  // of the absolute errors
  double bias = 0;                                  // mean of the signed errors
  std::size_t worst_at = 0;                         // its place among the errors
};
ErrorSizes error_sizes(const std::vector<double>& errors);

double mean_of(const std::vector<double>& values);  // 0 without values

}  // namespace panpipe::validation
