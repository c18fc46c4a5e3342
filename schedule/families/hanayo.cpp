// Hanayo (Liu et al., SC 2023): a wave, that is a V with more than two stages a rank; two stages a rank make one wave. It is
// Chimera folded onto itself: no stage is twice in memory, and more waves mean shorter stages and a smaller bubble.
//
// A unit is P microbatches. With passes of one slot, F of stage s and the unit's j-th microbatch stands in slot s + 2j and its B
// in slot 2vP-1-s + 2j: the stages of a rank take slots of different parity, or different times, and never collide. Further
// units follow without a gap when F = B.
#include <fmt/format.h>

#include "schedule/slotted_order.hpp"

namespace panpipe {
namespace {

int stages_of_wave(const ScheduleOptions& options) { return integer_option(options, "stages_per_rank", 4, 2); }

std::string no_hanayo(int, int, const ScheduleOptions& options) {
  const int chunks = stages_of_wave(options);
  if (chunks % 2 == 0) return "";
  return fmt::format(
      "hanayo needs an even number of stages on each rank (option stages_per_rank), not {}: a wave runs "
      "through the ranks and back",
      chunks);
}

Schedule make_hanayo(int ranks, int microbatches, const ScheduleOptions& options) {
  const int chunks = stages_of_wave(options);
  Schedule schedule = v_schedule("hanayo", ranks, microbatches, chunks);
  const WaveSlots slots{schedule.stages, ranks};
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::pair<int, int>> stages;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const int stage = chunk * ranks + (chunk % 2 == 0 ? rank : ranks - 1 - rank);
      stages.emplace_back(stage, stage);
    }
    schedule.order[rank] = slots.row(stages, microbatches);
  }
  return schedule;
}

}  // namespace

ScheduleFamily hanayo_family() {
  return {"hanayo",
          "waves: several times through the ranks and back, shorter stages",
          "Liu et al., Hanayo, SC 2023",
          {{"stages_per_rank", "4"}},
          make_hanayo,
          no_hanayo};
}

}  // namespace panpipe
