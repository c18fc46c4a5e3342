// GIS-H (Wan et al., "PipeOffload", ICML 2025): the generalised interleaved schedule with half the memory, group-interleaved with
// turns of half the ranks. Rank 0 holds ceil(P/2) (v-1) + P activations where turns of P hold P v: half of it as v grows.
#include <string>

#include "schedule/families/building.hpp"

namespace panpipe {

Schedule make_gis_h(int ranks, int microbatches, const ScheduleOptions& options) {
  ScheduleOptions shortest = options;
  shortest["group"] = std::to_string((ranks + 1) / 2);
  Schedule schedule = make_group_interleaved(ranks, microbatches, shortest);
  schedule.name = "gis-h";
  return schedule;
}

}  // namespace panpipe
