// Sets of time as sorted, disjoint intervals.
#pragma once

#include <vector>

namespace panpipe {

struct Interval {
  double start, end;
};

std::vector<Interval> united(std::vector<Interval> intervals);  // sorted and disjoint
double length(const std::vector<Interval>& disjoint);
double common_length(const std::vector<Interval>& a,
                     const std::vector<Interval>& b);  // length of the intersection; both must be disjoint

}  // namespace panpipe
