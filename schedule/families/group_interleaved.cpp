// Group-interleaved 1F1B (Wan et al., "PipeOffload", ICML 2025; its generator without offload): interleaved 1F1B with turns
// shorter than the pipeline and the backward split, each weight gradient right behind its input gradient. A turn of g
// microbatches holds g (v-1) + p activations on rank 0, so turns of p/2 hold far fewer than turns of p, for (p-g)(v-1) passes
// more bubble.
//
// The order repeats a block that is g microbatches wide. A last turn that is not full leaves the places of its missing
// microbatches empty: passes keep their distance as if these existed.
//
// GIS-H is the generalised interleaved schedule of the same paper with half the memory: turns of half the ranks. Rank 0 holds
// ceil(P/2) (v-1) + P activations where turns of P hold P v: half of it as v grows.
#include <fmt/format.h>

#include "base/error.hpp"
#include "schedule/looped_turns.hpp"
#include "schedule/order_building.hpp"

namespace panpipe {
namespace {

Schedule make_group_interleaved(int ranks, int microbatches, const ScheduleOptions& options) {
  const int chunks = integer_option(options, "stages_per_rank", 2, 1);
  const int group = integer_option(options, "group", ranks, 1);
  const int shortest = (ranks + 1) / 2;
  if (group < shortest || group > ranks)
    throw InputError(
        fmt::format("group-interleaved on {} ranks takes turns of P/2 to P, {} to {} microbatches (option group), not {}: with "
                    "shorter ones a rank waits for itself, longer ones hold more and gain nothing",
                    ranks, shortest, ranks, group));
  Schedule schedule = looped_schedule("group-interleaved", ranks, microbatches, chunks);
  const int groups = (microbatches + group - 1) / group;
  const std::vector<Turn> places = turns(groups * group, group, chunks);
  for (int rank = 0; rank < ranks; ++rank) {
    Row& row = schedule.order[rank];
    const auto add = [&](ActionKind kind, int chunk, int microbatch) {
      if (microbatch < microbatches) row.push_back(pass(kind, chunk * ranks + rank, microbatch));
    };
    take_turns(
        static_cast<int>(places.size()), group * (chunks - 1) + ranks - 1 - rank,
        [&](int k) { add(ActionKind::F, places[k].chunk, places[k].microbatch); },
        [&](int k) {
          add(ActionKind::I, chunks - 1 - places[k].chunk, places[k].microbatch);
          add(ActionKind::W, chunks - 1 - places[k].chunk, places[k].microbatch);
        });
  }
  return schedule;
}

Schedule make_gis_h(int ranks, int microbatches, const ScheduleOptions& options) {
  ScheduleOptions shortest = options;
  shortest["group"] = std::to_string((ranks + 1) / 2);
  Schedule schedule = make_group_interleaved(ranks, microbatches, shortest);
  schedule.name = "gis-h";
  return schedule;
}

}  // namespace

ScheduleFamily group_interleaved_family() {
  return {"group-interleaved",
          "interleaved in short turns with split backward: less memory for a little bubble",
          published::kPipeOffload,
          {{"stages_per_rank", "2"}, {"group", "P"}},
          make_group_interleaved};
}

ScheduleFamily gis_h_family() {
  return {"gis-h",
          "group-interleaved in the shortest turns: about half of its activations",
          published::kPipeOffload,
          {{"stages_per_rank", "2"}},
          make_gis_h};
}

}  // namespace panpipe
