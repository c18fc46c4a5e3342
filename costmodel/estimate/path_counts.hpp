// The critical path of a step, as counts of table entries. Searches compare cuts along it.
#pragma once

#include <vector>

#include "costmodel/estimate/structure.hpp"

namespace panpipe {

// How often each table entry occurs on one path through a structure. The step time is the largest sum over all paths. For any
// costs of the same structure, the step time is therefore at least counts times costs, with equality on a critical path.
struct CriticalPath {
  std::vector<double> counts;  // [cost_entries], then [delay_entries]
};

// The path to the latest end, traced backwards. `ends` is the output of replay.
CriticalPath critical_path(const Structure& structure, const double* delays, const double* ends);

}  // namespace panpipe
