// Breadth-first looped pipeline (Lamy-Poirier, MLSys 2023), as PyTorch's ScheduleLoopedBFS orders it: each stage runs all
// microbatches before the rank's next stage; the backwards take stages and microbatches in reverse.
#include "schedule/order_building.hpp"

namespace panpipe {
namespace {

Schedule make_looped_bfs(int ranks, int microbatches, const ScheduleOptions& options) {
  const int chunks = integer_option(options, "stages_per_rank", 2, 1);
  Schedule schedule = looped_schedule("looped-bfs", ranks, microbatches, chunks);
  for (int rank = 0; rank < ranks; ++rank) {
    Row& row = schedule.order[rank];
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (int m = 0; m < microbatches; ++m) row.push_back(pass(ActionKind::F, chunk * ranks + rank, m));
    for (int chunk = chunks - 1; chunk >= 0; --chunk)
      for (int m = microbatches - 1; m >= 0; --m) row.push_back(pass(ActionKind::B, chunk * ranks + rank, m));
  }
  return schedule;
}

}  // namespace

ScheduleFamily looped_bfs_family() {
  return {"looped-bfs",
          "several stages per rank, all microbatches of a stage at once",
          "Lamy-Poirier, Breadth-first pipeline parallelism, MLSys 2023",
          {{"stages_per_rank", "2"}},
          make_looped_bfs};
}

}  // namespace panpipe
