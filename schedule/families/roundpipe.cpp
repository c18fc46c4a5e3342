// RoundPipe (arXiv 2604.27085): stages have no home. The parts of the forward, the part that turns a microbatch round and the
// parts of the backward are slots, which ranks take in turn: slot k of a round runs the round's microbatches on the rank behind
// that of slot k - 1, and the next round goes on where this one ended. Forward and backward are cut apart, so that all slots take
// the same time; each backward part makes its activations again. Weights lie in the host's memory
// (docs/models/memory-terms.md#weights-that-come-for-a-turn).
//
// A round that begins on another rank than an earlier one has stages of its own, copies of the same parts: a chain for each rank
// on which a round begins.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "schedule/limits.hpp"
#include "schedule/order_building.hpp"

namespace panpipe {
namespace {

// By default two slots for each rank, a quarter of them forwards: a forward takes about a third of a recompute with a backward.
struct Rounds {
  int forward, backward;          // slots; the first of the latter turns the microbatch round
  int size;                       // microbatches of a round
  int count = 0, beginnings = 0;  // of rounds, and of ranks on which one begins

  Rounds(int ranks, int microbatches, const ScheduleOptions& options)
      : forward(integer_option(options, "forward_slots", std::max(1, ranks / 2), 1)),
        backward(integer_option(options, "backward_slots", std::max(2, 2 * ranks - forward), 2)),
        size(integer_option(options, "round", ranks, 1)) {
    size = std::min(size, microbatches);
    count = (microbatches + size - 1) / size;
    beginnings = std::min(static_cast<int>(ranks / std::gcd<long long>(ranks, slots())), count);
  }
  long long slots() const { return static_cast<long long>(forward) + backward; }
};

std::string no_roundpipe(int ranks, int microbatches, const ScheduleOptions& options) {
  const Rounds rounds(ranks, microbatches, options);
  if (3.0 * static_cast<double>(rounds.slots()) * microbatches > kMaxActions)
    return fmt::format("{} slots and {} microbatches make more than {:g} million actions", rounds.slots(), microbatches,
                       kMaxActions / 1e6);
  const long long together = static_cast<long long>(rounds.size) * rounds.beginnings;
  if (rounds.beginnings == 1 || microbatches % together == 0) return "";
  return fmt::format(
      "roundpipe with {} slots on {} ranks begins its rounds of {} microbatches on {} ranks in turn, so it needs a multiple of "
      "{} "
      "microbatches, not {}; or a number of slots (forward_slots + backward_slots) that {} divides",
      rounds.slots(), ranks, rounds.size, rounds.beginnings, together, microbatches, ranks);
}

Schedule make_roundpipe(int ranks, int microbatches, const ScheduleOptions& options) {
  const Rounds rounds(ranks, microbatches, options);
  const int chains = rounds.beginnings, slots = static_cast<int>(rounds.slots());
  Schedule schedule = chained_schedule("roundpipe", ranks, microbatches, chains, slots, [&](int stage) { return stage % ranks; });
  for (int round = 0; round < rounds.count; ++round) {
    const int c = round % chains, first = round / chains * rounds.size;
    const int end = std::min(first + rounds.size, microbatches / chains);
    for (int slot = 0; slot < slots; ++slot) {
      const int stage = c * slots + slot;
      Row& row = schedule.order[schedule.stage_to_rank[stage]];
      for (int m = first; m < end; ++m) {
        if (slot <= rounds.forward) row.push_back(pass(ActionKind::F, stage, m));
        if (slot > rounds.forward) row.push_back(pass(ActionKind::R, stage, m));
        if (slot >= rounds.forward) row.push_back(pass(ActionKind::B, stage, m));
      }
    }
  }
  return schedule;
}

}  // namespace

ScheduleFamily roundpipe_family() {
  return {"roundpipe",
          "stages without a home: ranks take slots of forward and backward in turn",
          "RoundPipe, arXiv 2604.27085",
          {{"forward_slots", "P/2"}, {"backward_slots", "2P-forward_slots"}, {"round", "P"}},
          make_roundpipe,
          no_roundpipe,
          false};
}

}  // namespace panpipe
