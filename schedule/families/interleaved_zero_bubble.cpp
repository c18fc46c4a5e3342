// Interleaved zero bubble (PyTorch's ScheduleInterleavedZeroBubble): the turns of interleaved 1F1B with the backward split as in
// ZB-H1. Rank r runs (v-1) turns and p-1-r forwards ahead, half of what interleaved 1F1B does, because its input gradients
// come back sooner, and its weight gradients r behind its input gradients.
#include "schedule/looped_turns.hpp"
#include "schedule/order_building.hpp"

namespace panpipe {
namespace {

std::string no_interleaved_zero_bubble(int ranks, int microbatches, const ScheduleOptions&) {
  return no_default_turn("interleaved-zero-bubble", ranks, microbatches, "");
}

Schedule make_interleaved_zero_bubble(int ranks, int microbatches, const ScheduleOptions& options) {
  const int chunks = integer_option(options, "stages_per_rank", 2, 1);
  const int group = default_turn(ranks, microbatches);
  Schedule schedule = looped_schedule("interleaved-zero-bubble", ranks, microbatches, chunks);
  const std::vector<Turn> forward = turns(microbatches, group, chunks);
  const int total = static_cast<int>(forward.size());
  for (int rank = 0; rank < ranks; ++rank) {
    Row& row = schedule.order[rank];
    const TurnsOfRank turn{forward, ranks, chunks, rank};
    take_split_turns(
        total, (chunks - 1) * group + ranks - 1 - rank, rank, [&](int k) { row.push_back(turn.F(k)); },
        [&](int k) { row.push_back(turn.backward(ActionKind::I, k)); },
        [&](int k) { row.push_back(turn.backward(ActionKind::W, k)); });
  }
  return schedule;
}

}  // namespace

ScheduleFamily interleaved_zero_bubble_family() {
  return {"interleaved-zero-bubble",
          "interleaved-1f1b with the split backward of zb-h1",
          "PyTorch, ScheduleInterleavedZeroBubble",
          {{"stages_per_rank", "2"}},
          make_interleaved_zero_bubble,
          no_interleaved_zero_bubble};
}

}  // namespace panpipe
