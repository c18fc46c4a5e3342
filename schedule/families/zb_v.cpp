// ZB-V (Qi et al., "Pipeline parallelism with controllable memory", NeurIPS 2024; the hand-made order of their release 0.1.0,
// which is also PyTorch's ScheduleZBVZeroBubble): a V with two stages a rank and split backwards.
//
// The order is drawn for at least 2p-1 microbatches; with fewer, the passes of those that do not exist are left out.
#include <algorithm>

#include "schedule/order_building.hpp"

namespace panpipe {
namespace {

void add_input_and_weight_gradient(RowBuilder& row, int chunk) {
  row.add(row.I(chunk));
  row.add(row.W(chunk));
}

void add_zb_v_row(int ranks, int microbatches, int rank, RowBuilder& row) {
  // The first stages run ahead, until a microbatch has come back to this rank ...
  for (int i = 0; i < 2 * (ranks - rank) - 1; ++i) row.add(row.F(0));
  for (int i = 0; i < rank; ++i) {
    row.add(row.F(1));
    row.add(row.F(0));
  }
  // ... then the second stages catch up, backwards included ...
  for (int i = 0; i < ranks - rank; ++i) {
    row.add(row.F(1));
    add_input_and_weight_gradient(row, 1);
  }
  // ... and both take turns.
  while (row.forwards(1) < microbatches) {
    if (row.forwards(0) < microbatches) row.add(row.F(0));
    add_input_and_weight_gradient(row, 0);
    row.add(row.F(1));
    add_input_and_weight_gradient(row, 1);
  }
  // At the end weight gradients wait, so that input gradients leave early.
  for (int i = 0; i < rank; ++i) {
    row.add(row.I(0));
    row.add(row.I(1));
  }
  for (int i = 0; i < ranks - rank; ++i) add_input_and_weight_gradient(row, 0);
  for (int i = 0; i < rank; ++i) row.add(row.W(1));
  for (int i = 0; i < rank; ++i) row.add(row.W(0));
}

Schedule make_zb_v(int ranks, int microbatches, const ScheduleOptions&) {
  Schedule schedule = v_schedule("zb-v", ranks, microbatches);
  const int drawn = std::max(microbatches, 2 * ranks - 1);
  for (int rank = 0; rank < ranks; ++rank) {
    Row& row = schedule.order[rank];
    RowBuilder builder(row, {rank, 2 * ranks - 1 - rank});
    add_zb_v_row(ranks, drawn, rank, builder);
    if (drawn > microbatches) std::erase_if(row, [&](const Action& action) { return action.microbatch >= microbatches; });
  }
  return schedule;
}

}  // namespace

ScheduleFamily zb_v_family() {
  return {"zb-v",
          "split backward over a V: no bubble at even costs with the memory of 1f1b",
          published::kControllableMemory,
          {},
          make_zb_v};
}

}  // namespace panpipe
