// Orders on a time grid: every pass has a slot (a whole number), and a rank runs its passes in the order of their slots.
#pragma once

#include <algorithm>
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
  int forward(int position, int microbatch) const { return enters(microbatch) + position; }
  int backward(int position, int microbatch) const { return enters(microbatch) + 2 * chain_length - 1 - position; }

  // A rank's row: all passes of its stages, each with its position in the chain.
  Row row(const std::vector<std::pair<int, int>>& stages, int microbatches) const {
    std::vector<std::pair<int, Action>> passes;
    passes.reserve(2 * stages.size() * static_cast<std::size_t>(microbatches));
    for (const auto& [stage, position] : stages)
      for (int m = 0; m < microbatches; ++m) {
        passes.emplace_back(forward(position, m), pass(ActionKind::F, stage, m));
        passes.emplace_back(backward(position, m), pass(ActionKind::B, stage, m));
      }
    std::sort(passes.begin(), passes.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    Row row;
    for (const auto& slotted : passes) row.push_back(slotted.second);
    return row;
  }
};

}  // namespace panpipe
