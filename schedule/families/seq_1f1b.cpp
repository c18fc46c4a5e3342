// Seq1F1B (Sun et al., 2024): 1F1B whose unit is a slice of a microbatch's sequence. Forwards take the slices in order, backwards
// in reverse, because a slice's gradient needs those of the slices that attended to it. Rank r runs p-1-r slices ahead, plus
// those needed to complete a microbatch before its first backward.
#include "schedule/order_building.hpp"

namespace panpipe {
namespace {

Schedule make_seq_1f1b(int ranks, int microbatches, const ScheduleOptions& options) {
  const int splits = splits_option(options, 2);
  Schedule schedule = linear_schedule("seq-1f1b", ranks, microbatches);
  schedule.splits = splits;
  const int total = microbatches * splits;
  const auto slice = [&](int k) { return splits == 1 ? -1 : k % splits; };
  for (int rank = 0; rank < ranks; ++rank) {
    Row& row = schedule.order[rank];
    take_turns(
        total, ranks - 1 - rank + splits - 1, [&](int k) { row.push_back(pass(ActionKind::F, rank, k / splits, slice(k))); },
        [&](int k) { row.push_back(pass(ActionKind::B, rank, k / splits, slice(splits - 1 - k % splits))); });
  }
  return schedule;
}

}  // namespace

// Planners do not try it on their own, because not every workload can be sliced.
ScheduleFamily seq_1f1b_family() {
  return {"seq-1f1b",
          "1f1b over slices of the sequence: a smaller bubble and less memory",
          "Sun et al., Seq1F1B, arXiv 2406.03488, 2024",
          {{"sequence_splits", "2"}},
          make_seq_1f1b,
          /*refusal=*/nullptr,
          /*planned=*/false};
}

}  // namespace panpipe
