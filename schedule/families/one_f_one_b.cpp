// 1F1B (PipeDream-flush, Narayanan et al., ICML 2021; DAPPLE, PPoPP 2021): rank r runs p-1-r forwards ahead, then one forward
// and one backward in turn, then the backwards that are left.
#include <algorithm>

#include "schedule/order_building.hpp"

namespace panpipe {
namespace {

Schedule make_1f1b(int ranks, int microbatches, const ScheduleOptions&) {
  Schedule schedule = linear_schedule("1f1b", ranks, microbatches);
  for (int rank = 0; rank < ranks; ++rank) {
    Row& row = schedule.order[rank];
    const int warmup = std::min(ranks - 1 - rank, microbatches);
    for (int m = 0; m < warmup; ++m) row.push_back(pass(ActionKind::F, rank, m));
    for (int m = 0; m < microbatches; ++m) {
      if (warmup + m < microbatches) row.push_back(pass(ActionKind::F, rank, warmup + m));
      row.push_back(pass(ActionKind::B, rank, m));
    }
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
