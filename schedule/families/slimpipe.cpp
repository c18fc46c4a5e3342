// SlimPipe (Li et al., SC 2025; its order from the authors' schedules.py): interleaved 1F1B whose unit is a slice of a sequence.
// A turn is the least divisor of the slices that fills the pipeline. A rank runs all slices of a microbatch forwards, turn by
// turn, within a turn stage by stage; backwards are the exact reverse. A rank runs 2(P-1-r) passes ahead of the last one, so
// that in a steady state all ranks run forwards, and then all backwards, at the same time: what the exchange of attention
// (schedule/slice_exchange.hpp) is between.
#include <fmt/format.h>

#include "schedule/looped_turns.hpp"
#include "schedule/order_building.hpp"

namespace panpipe {
namespace {

std::string no_slimpipe(int ranks, int, const ScheduleOptions& options) {
  const int slices = splits_option(options, ranks);
  if (slices >= ranks) return "";
  return fmt::format(
      "slimpipe fills {0} ranks with the slices of one microbatch, and there are {1}; use sequence_splits={0} or more", ranks,
      slices);
}

Schedule make_slimpipe(int ranks, int microbatches, const ScheduleOptions& options) {
  const int slices = splits_option(options, ranks), chunks = integer_option(options, "stages_per_rank", 2, 1);
  word_option(options, "exchange", {"on", "off"});
  Schedule schedule = looped_schedule("slimpipe", ranks, microbatches, chunks);
  schedule.splits = slices;
  int turn = ranks;
  while (slices % turn != 0) ++turn;
  const std::vector<Turn> forward = turns(microbatches * slices, turn, chunks);
  const int total = static_cast<int>(forward.size()), whole = slices * chunks;  // passes of a step, of a microbatch
  for (int rank = 0; rank < ranks; ++rank) {
    Row& row = schedule.order[rank];
    const auto add = [&](ActionKind kind, int k) {
      const int slice = forward[k].microbatch;  // of the step
      row.push_back(pass(kind, forward[k].chunk * ranks + rank, slice / slices, slices == 1 ? -1 : slice % slices));
    };
    take_turns(
        total, whole + 2 * (ranks - 1 - rank) - 1, [&](int k) { add(ActionKind::F, k); },
        [&](int k) { add(ActionKind::B, k / whole * whole + whole - 1 - k % whole); });
  }
  return schedule;
}

}  // namespace

// Planners do not try it on their own, because not every workload can be sliced.
ScheduleFamily slimpipe_family() {
  return {"slimpipe",
          "interleaved 1f1b over slices of the sequence, whose attention ranks share: one microbatch in flight",
          "Li et al., SlimPipe, SC 2025, arXiv 2504.14519",
          {{"sequence_splits", "P"}, {"stages_per_rank", "2"}, {"exchange", "on"}},
          make_slimpipe,
          no_slimpipe,
          /*planned=*/false};
}

}  // namespace panpipe
