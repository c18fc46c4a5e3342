// Interleaved 1F1B (Narayanan et al., SC 2021) as Megatron-LM and PyTorch's ScheduleInterleaved1F1B run it.
//
// A rank holds v stages and takes them in turns of `group` microbatches: the k-th forward of a rank walks group after group,
// stage after stage, microbatch after microbatch; the backwards walk the same turns with the stages reversed. The last group
// is short when `group` does not divide the microbatches.
// With `combined`, each steady forward and backward is one group, which needs one more forward of warm-up (Megatron's
// overlap of expert communication).
#include <fmt/format.h>

#include <algorithm>

#include "schedule/looped_turns.hpp"
#include "schedule/order_building.hpp"

namespace panpipe {
namespace {

// Turns at least as long as the pipeline always finish (Megatron requires that); shorter ones may wait for each other in a cycle.
// Such an order is still made: the check of the order explains the cycle, and the note states the remedy.
void note_short_turns(Schedule& schedule, int group) {
  const int rest = schedule.microbatches % group;
  if (group >= schedule.microbatches || (group >= schedule.ranks && (rest == 0 || rest >= schedule.ranks))) return;
  if (!check_schedule(schedule).empty())
    schedule.notes.push_back(
        fmt::format("turns of at least {} microbatches, the last one too, always finish (option group)", schedule.ranks));
}

std::string no_interleaved_1f1b(int ranks, int microbatches, const ScheduleOptions& options) {
  return options.count("group") > 0 ? "" : no_default_turn("interleaved-1f1b", ranks, microbatches, "group");
}

Schedule make_interleaved_1f1b(int ranks, int microbatches, const ScheduleOptions& options) {
  const int chunks = integer_option(options, "stages_per_rank", 2, 1);
  const bool combined = boolean_option(options, "combined", false);
  const int group = integer_option(options, "group", default_turn(ranks, microbatches), 1);

  Schedule schedule = looped_schedule("interleaved-1f1b", ranks, microbatches, chunks);
  const std::vector<Turn> forward = turns(microbatches, group, chunks);
  const int total = static_cast<int>(forward.size());
  for (int rank = 0; rank < ranks; ++rank) {
    Row& row = schedule.order[rank];
    const TurnsOfRank turn{forward, ranks, chunks, rank};
    const long long ahead = 2LL * (ranks - 1 - rank) + static_cast<long long>(chunks - 1) * group + (combined ? 1 : 0);
    const int warmup = static_cast<int>(std::min<long long>(ahead, total));
    take_turns(
        total, warmup, [&](int k) { row.push_back(turn.F(k)); },
        [&](int k) {
          const Action backward = turn.backward(ActionKind::B, k);
          if (!combined || warmup + k >= total) return row.push_back(backward);
          const Action paired = row.back();
          row.pop_back();
          add_group(row, GroupKind::OverlapFB, {paired, backward});
        });
  }
  note_short_turns(schedule, group);
  return schedule;
}

}  // namespace

ScheduleFamily interleaved_1f1b_family() {
  return {"interleaved-1f1b",
          "several stages per rank in turns: a smaller bubble for more transfers",
          "Narayanan et al., SC 2021; Megatron-LM",
          {{"stages_per_rank", "2"}, {"group", "M / max(1, M div P)"}, {"combined", "false"}},
          make_interleaved_1f1b,
          no_interleaved_1f1b};
}

}  // namespace panpipe
