// 1F1B (PipeDream-flush, Narayanan et al., ICML 2021; DAPPLE, PPoPP 2021): rank r runs p-1-r forwards ahead, then one forward
// and one backward in turn, then the backwards that are left.
#include "schedule/order_building.hpp"

namespace panpipe {
namespace {

Schedule make_1f1b(int ranks, int microbatches, const ScheduleOptions&) {
  Schedule schedule = linear_schedule("1f1b", ranks, microbatches);
  for (int rank = 0; rank < ranks; ++rank) {
    Row& row = schedule.order[rank];
    take_turns(microbatches, ranks - 1 - rank, AddsPass<ActionKind::F>{row, rank}, AddsPass<ActionKind::B>{row, rank});
  }
  return schedule;
}

}  // namespace

ScheduleFamily one_f_one_b_family() {
  return {"1f1b",
          "one forward, one backward: few activations, the bubble of gpipe",
          "Fan et al., DAPPLE, PPoPP 2021; Narayanan et al., ICML 2021",
          {},
          make_1f1b};
}

}  // namespace panpipe
