// ZB-H1 and ZB-H2, the hand-made orders of the Zero Bubble paper (Qi et al., ICLR 2024): 1F1B with the backward split.
//
// With depth 1 (H1) rank r runs its weight gradients r microbatches behind its input gradients: the input gradients leave early
// and the weight gradients fill the end, with the activations of 1F1B. With depth 2 (H2) it runs twice as many forwards ahead
// and its weight gradients twice as far behind, which leaves no gap between a rank's first and last pass when F = I = W, for
// nearly twice the activations. Defined for any number of microbatches.
#include "schedule/order_building.hpp"

namespace panpipe {
namespace {

Schedule make(std::string name, int ranks, int microbatches, int depth) {
  Schedule schedule = linear_schedule(std::move(name), ranks, microbatches);
  for (int rank = 0; rank < ranks; ++rank) {
    Row& row = schedule.order[rank];
    const auto add = [&](ActionKind kind, int m) { row.push_back(pass(kind, rank, m)); };
    take_split_turns(
        microbatches, depth * (ranks - 1 - rank), depth * rank, [&](int m) { add(ActionKind::F, m); },
        [&](int m) { add(ActionKind::I, m); }, [&](int m) { add(ActionKind::W, m); });
  }
  return schedule;
}

Schedule make_zb_h1(int ranks, int microbatches, const ScheduleOptions&) { return make("zb-h1", ranks, microbatches, 1); }
Schedule make_zb_h2(int ranks, int microbatches, const ScheduleOptions&) { return make("zb-h2", ranks, microbatches, 2); }

}  // namespace

ScheduleFamily zb_h1_family() {
  return {"zb-h1", "split backward, weight gradients fill the end; memory of 1f1b", published::kZeroBubble, {}, make_zb_h1};
}

ScheduleFamily zb_h2_family() {
  return {"zb-h2", "as zb-h1, further ahead: nearly no bubble for twice the activations", published::kZeroBubble, {}, make_zb_h2};
}

}  // namespace panpipe
