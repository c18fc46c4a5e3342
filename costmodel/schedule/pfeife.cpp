// The looped family that Pfeife's planner searches (ICML 2025), with its two parameters.
//
// Microbatches are cut into groups of `loop_batch`. Forwards: group after group, the rank's stages ascending, all microbatches
// of the group on each. Backwards: the same groups, stages descending. On rank r the first backward follows forward number
// (v-1) loop_batch + (p-r) + min(p-1-r, prefetch), counted from 1; from there one backward follows each forward. The members
// are made as the family defines them: some (a loop_batch that leaves a short last group, say) order themselves into a cycle,
// which check_schedule reports.
#include <algorithm>

#include "costmodel/schedule/building.hpp"

namespace panpipe {

Schedule make_pfeife(int ranks, int microbatches, const ScheduleOptions& options) {
  const int chunks = integer_option(options, "stages_per_rank", 1, 1);
  const int loop_batch = integer_option(options, "loop_batch", microbatches, 1);
  const int prefetch = integer_option(options, "prefetch", 0, 0);

  Schedule schedule = looped_schedule("pfeife", ranks, microbatches, chunks);
  for (int rank = 0; rank < ranks; ++rank) {
    Row forwards, backwards;
    for (int first = 0, end = 0; first < microbatches; first = end) {
      end = first + std::min(loop_batch, microbatches - first);
      for (int chunk = 0; chunk < chunks; ++chunk) {
        for (int m = first; m < end; ++m) forwards.push_back(pass(ActionKind::F, chunk * ranks + rank, m));
        for (int m = first; m < end; ++m) backwards.push_back(pass(ActionKind::B, (chunks - 1 - chunk) * ranks + rank, m));
      }
    }
    const std::size_t total = forwards.size();
    const auto ahead = static_cast<std::size_t>(chunks - 1) * static_cast<std::size_t>(loop_batch) +
                       static_cast<std::size_t>(ranks - rank + std::min(ranks - 1 - rank, prefetch));
    Row& row = schedule.order[static_cast<std::size_t>(rank)];
    std::size_t done = 0;
    for (std::size_t k = 0; k < total; ++k) {
      row.push_back(forwards[k]);
      if (k + 1 >= ahead) row.push_back(backwards[done++]);
    }
    while (done < total) row.push_back(backwards[done++]);
  }
  return schedule;
}

}  // namespace panpipe
