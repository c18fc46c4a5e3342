// Repeated measurements to one number: the median of what is left when the far ones are dropped.
#pragma once

#include <chrono>
#include <vector>

namespace panpipe::exec {

struct RobustMedian {
  double median = 0;
  double spread = 0;  // upper less lower quartile over the median
  int dropped = 0;    // farther than 1.5 such distances outside the quartiles (Tukey's fences)
};

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// 0 for no samples.
RobustMedian robust_median(std::vector<double> samples);

}  // namespace panpipe::exec
