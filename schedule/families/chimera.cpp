// Chimera (Li and Hoefler, SC 2021): two 1F1B pipelines in opposite directions, so that each fills the gaps of the other. Every
// stage is in memory twice.
//
// A unit is P microbatches, half of them in each direction. With passes of one slot, F of the chain's s-th stage and the unit's
// j-th microbatch is in slot s + 2j and its B in slot 2P-1-s + 2j. On a rank the two chains use slots of different parity while
// both run forwards or both run backwards, and otherwise different times, so they never collide. Further units follow without a
// gap ("direct concatenation"), which is exact for F = B; longer backwards leave gaps between the units.
#include <fmt/format.h>

#include "schedule/slotted_order.hpp"

namespace panpipe {
namespace {

std::string no_chimera(int ranks, int microbatches, const ScheduleOptions&) {
  if (ranks % 2 != 0)
    return fmt::format("chimera needs an even number of ranks, not {}: its two chains meet in the middle", ranks);
  if (microbatches % 2 != 0)
    return fmt::format("chimera needs an even number of microbatches, not {}: its two chains take one half each", microbatches);
  return "";
}

Schedule make_chimera(int ranks, int microbatches, const ScheduleOptions&) {
  Schedule schedule = bidirectional_schedule("chimera", ranks, microbatches);
  const WaveSlots slots{ranks, ranks / 2};
  for (int rank = 0; rank < ranks; ++rank) {
    const int back = ranks - 1 - rank;
    schedule.order[rank] = slots.row({{rank, rank}, {ranks + back, back}}, microbatches / 2);
  }
  return schedule;
}

}  // namespace

ScheduleFamily chimera_family() {
  return {
      "chimera", "two 1f1b pipelines against each other, every stage twice", "Li and Hoefler, Chimera, SC 2021", {}, make_chimera,
      no_chimera};
}

}  // namespace panpipe
