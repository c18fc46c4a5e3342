// Orders on a time grid: every pass has a slot (a whole number), and a rank runs its passes in the order of their slots.
#pragma once

#include <utility>
#include <vector>

#include "schedule/order_building.hpp"

namespace panpipe {

// Forwards and backwards of a wave of `chain_length` stages, with every pass one slot long. Microbatch j enters two slots after
// microbatch j-1, runs forward one stage per slot, turns at the last stage and runs back. A unit of `unit` microbatches fills the
// chain; the next unit enters as soon as nothing collides, 2 chain_length slots later.
struct WaveSlots {
  int chain_length, unit;

  int enters(int microbatch) const { return microbatch / unit * 2 * chain_length + microbatch % unit * 2; }

  // A rank's row: all passes of its stages, each with its position in the chain. No two of them fall into one slot.
  Row row(const std::vector<std::pair<int, int>>& stages, int microbatches) const {
    constexpr int kEmpty = -1;
    Row slots(static_cast<std::size_t>(enters(microbatches - 1) + 2 * chain_length), pass(ActionKind::F, kEmpty, 0));
    for (int m = 0; m < microbatches; ++m) {
      Action* const begin = &slots[enters(m)];
      for (const auto& [stage, position] : stages) {
        begin[position] = pass(ActionKind::F, stage, m);
        begin[2 * chain_length - 1 - position] = pass(ActionKind::B, stage, m);
      }
    }
    std::erase_if(slots, [](const Action& action) { return action.stage == kEmpty; });
    return slots;
  }
};

}  // namespace panpipe
