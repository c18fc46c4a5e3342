// Reduces repeated measurements to one number: the median without outliers.
#pragma once

#include <chrono>
#include <vector>

namespace panpipe::exec {

struct RobustMedian {
  double median = 0;
  double spread = 0;  // interquartile range over the median
  int dropped = 0;    // outliers beyond 1.5 interquartile ranges outside the quartiles (Tukey's fences)
};

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// 0 without samples.
RobustMedian robust_median(std::vector<double> samples);

}  // namespace panpipe::exec
