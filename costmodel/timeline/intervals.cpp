#include "costmodel/timeline/intervals.hpp"

#include <algorithm>
#include <cstddef>

namespace panpipe {

std::vector<Interval> united(std::vector<Interval> intervals) {
  const auto earlier = [](const Interval& a, const Interval& b) { return a.start < b.start; };
  // Callers put long sorted runs first, such as the collectives inside passes.
  const auto sorted_end = std::is_sorted_until(intervals.begin(), intervals.end(), earlier);
  std::sort(sorted_end, intervals.end(), earlier);
  std::inplace_merge(intervals.begin(), sorted_end, intervals.end(), earlier);
  std::vector<Interval> result;
  result.reserve(intervals.size());
  for (const Interval& interval : intervals) {
    if (!result.empty() && interval.start <= result.back().end) {
      result.back().end = std::max(result.back().end, interval.end);
    } else {
      result.push_back(interval);
    }
  }
  return result;
}

double length(const std::vector<Interval>& disjoint) {
  double sum = 0;
  for (const Interval& interval : disjoint) sum += interval.end - interval.start;
  return sum;
}

double common_length(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  double sum = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    sum += std::max(0.0, std::min(a[i].end, b[j].end) - std::max(a[i].start, b[j].start));
    (a[i].end < b[j].end ? i : j) += 1;
  }
  return sum;
}

}  // namespace panpipe
