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

#include "schedule/order_building.hpp"

namespace panpipe {
namespace {

// By default two slots for each rank, a quarter of them forwards: a forward takes about a third of a recompute with a backward.
struct Slots {
  int forward, backward;  // the first of the latter turns the microbatch round

  Slots(int ranks, const ScheduleOptions& options)
      : forward(integer_option(options, "forward_slots", std::max(1, ranks / 2), 1)),
        backward(integer_option(options, "backward_slots", std::max(2, 2 * ranks - forward), 2)) {}
  int all() const { return forward + backward; }
};

int rounds_of(int ranks, int microbatches) { return (microbatches + ranks - 1) / ranks; }

// Ranks on which a round begins.
int beginnings(int ranks, int microbatches, const Slots& slots) {
  return std::min(ranks / std::gcd(ranks, slots.all()), rounds_of(ranks, microbatches));
}

std::string no_roundpipe(int ranks, int microbatches, const ScheduleOptions& options) {
  const Slots slots(ranks, options);
  const int chains = beginnings(ranks, microbatches, slots);
  if (chains == 1 || microbatches % (ranks * chains) == 0) return "";
  return fmt::format(
      "roundpipe with {} slots on {} ranks begins its rounds of {} microbatches on {} ranks in turn, so it needs a multiple of "
      "{} "
      "microbatches, not {}; or a number of slots (forward_slots + backward_slots) that {} divides",
      slots.all(), ranks, ranks, chains, ranks * chains, microbatches, ranks);
}

Schedule make_roundpipe(int ranks, int microbatches, const ScheduleOptions& options) {
  const Slots slots(ranks, options);
  const int chains = beginnings(ranks, microbatches, slots), rounds = rounds_of(ranks, microbatches);
  Schedule schedule;
  schedule.name = "roundpipe";
  schedule.ranks = ranks;
  schedule.microbatches = microbatches;
  schedule.stages = slots.all() * chains;
  schedule.order.resize(ranks);
  for (int c = 0; c < chains; ++c) {
    std::vector<int>& chain = schedule.chains.emplace_back(slots.all());
    std::iota(chain.begin(), chain.end(), c * slots.all());
    for (int slot = 0; slot < slots.all(); ++slot) schedule.stage_to_rank.push_back((c * slots.all() + slot) % ranks);
  }
  for (int round = 0; round < rounds; ++round) {
    const int c = round % chains, first = round / chains * ranks;
    const int end = std::min(first + ranks, microbatches / chains);
    for (int slot = 0; slot < slots.all(); ++slot) {
      const int stage = c * slots.all() + slot;
      Row& row = schedule.order[schedule.stage_to_rank[stage]];
      for (int m = first; m < end; ++m) {
        if (slot <= slots.forward) row.push_back(pass(ActionKind::F, stage, m));
        if (slot > slots.forward) row.push_back(pass(ActionKind::R, stage, m));
        if (slot >= slots.forward) row.push_back(pass(ActionKind::B, stage, m));
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
          {{"forward_slots", "P/2"}, {"backward_slots", "2P-forward_slots"}},
          make_roundpipe,
          no_roundpipe,
          false};
}

}  // namespace panpipe
