// Orders on a time grid: every pass has a slot (a whole number), and a rank runs its passes in the order of their slots.
#pragma once

#include <algorithm>
#include <vector>

#include "schedule/order_building.hpp"

namespace panpipe {

struct SlottedPass {
  int slot;
  Action action;
};

// The slots of one rank must differ.
inline Row in_order_of_slots(const std::vector<SlottedPass>& passes) {
  int last = 0;
  for (const SlottedPass& pass : passes) last = std::max(last, pass.slot);
  std::vector<const Action*> at_slot(last + 1, nullptr);
  for (const SlottedPass& pass : passes) at_slot[pass.slot] = &pass.action;
  Row row;
  row.reserve(passes.size());
  for (const Action* action : at_slot)
    if (action != nullptr) row.push_back(*action);
  return row;
}

// Forwards and backwards of a wave of `chain_length` stages, with every pass one slot long. Microbatch j enters two slots after
// microbatch j-1, runs forward one stage per slot, turns at the last stage and runs back. A unit of `unit` microbatches fills the
// chain; the next unit enters as soon as nothing collides, 2 chain_length slots later.
struct WaveSlots {
  int chain_length, unit;

  int enters(int microbatch) const { return microbatch / unit * 2 * chain_length + microbatch % unit * 2; }
  int forward(int position, int microbatch) const { return enters(microbatch) + position; }
  int backward(int position, int microbatch) const { return enters(microbatch) + 2 * chain_length - 1 - position; }
};

}  // namespace panpipe
