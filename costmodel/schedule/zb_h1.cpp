// ZB-H1, the hand-made order of the Zero Bubble paper (Qi et al., ICLR 2024) that holds no more activations than 1F1B:
// 1F1B with the backward split, rank r running its weight gradients r microbatches behind its input gradients, so that the
// input gradients leave early and the weight gradients fill the end. Defined for any number of microbatches.
#include <algorithm>

#include "costmodel/schedule/building.hpp"

namespace panpipe {

Schedule make_zb_h1(int ranks, int microbatches, const ScheduleOptions&) {
  Schedule schedule = linear_schedule("zb-h1", ranks, microbatches);
  for (int rank = 0; rank < ranks; ++rank) {
    Row& row = schedule.order[static_cast<std::size_t>(rank)];
    const int warmup = ranks - 1 - rank;
    for (int m = 0; m < std::min(warmup, microbatches); ++m) row.push_back(pass(ActionKind::F, rank, m));
    int weights = 0;
    for (int m = 0; m < microbatches; ++m) {
      if (warmup + m < microbatches) row.push_back(pass(ActionKind::F, rank, warmup + m));
      row.push_back(pass(ActionKind::I, rank, m));
      if (m >= rank) row.push_back(pass(ActionKind::W, rank, weights++));
    }
    while (weights < microbatches) row.push_back(pass(ActionKind::W, rank, weights++));
  }
  return schedule;
}

}  // namespace panpipe
