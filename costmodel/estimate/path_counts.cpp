#include "costmodel/estimate/path_counts.hpp"

namespace panpipe {

CriticalPath critical_path(const Structure& structure, const double* delays, const double* ends) {
  CriticalPath path;
  path.counts.assign(structure.cost_entries + structure.delay_entries, 0);
  std::uint32_t t = 0;
  for (const std::uint32_t last : structure.lane_last) {
    if (ends[last] > ends[t]) t = last;
  }
  while (t != 0) {
    path.counts[structure.cost[t]] += 1;
    const double arrival = ends[structure.src[t]] + delays[structure.delay[t]];
    if (ends[structure.lane_pred[t]] >= arrival) {
      t = structure.lane_pred[t];
    } else {
      path.counts[structure.cost_entries + structure.delay[t]] += 1;
      t = structure.src[t];
    }
  }
  return path;
}

}  // namespace panpipe
