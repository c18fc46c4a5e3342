// GPipe (Huang et al., NeurIPS 2019): all forwards, then all backwards, both in ascending microbatch order as PyTorch's
// ScheduleGPipe and Megatron run them (the paper's figure draws the backwards in reverse).
#include "schedule/order_building.hpp"

namespace panpipe {
namespace {

Schedule make_gpipe(int ranks, int microbatches, const ScheduleOptions&) {
  Schedule schedule = linear_schedule("gpipe", ranks, microbatches);
  for (int rank = 0; rank < ranks; ++rank) {
    Row& row = schedule.order[rank];
    take_turns(microbatches, microbatches, AddsPass<ActionKind::F>{row, rank}, AddsPass<ActionKind::B>{row, rank});
  }
  return schedule;
}

}  // namespace

ScheduleFamily gpipe_family() {
  return {"gpipe", "all forwards, then all backwards", "Huang et al., GPipe, NeurIPS 2019", {}, make_gpipe};
}

}  // namespace panpipe
