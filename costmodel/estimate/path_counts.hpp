// What makes a step as long as it is, as counts of table entries: searches compare cuts along it.
#pragma once

#include <vector>

#include "costmodel/estimate/structure.hpp"

namespace panpipe {

// How often each entry of the tables lies on one path through a structure. The step time is the largest sum over all paths, so
// for any costs of the same structure: step time >= counts times costs, with equality where the path is critical.
struct CriticalPath {
  std::vector<double> counts;  // [cost_entries], then [delay_entries]
};

// The path that made the last end as late as it is, walked back from there. `ends` is what replay left.
CriticalPath critical_path(const Structure& structure, const double* delays, const double* ends);

}  // namespace panpipe
