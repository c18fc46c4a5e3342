// Cuts of a model whose forward and backward are cut apart (schedule/walk.hpp: Way): forward slots, the slot that turns a
// microbatch round, backward slots.
#pragma once

#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "schedule/schedule.hpp"

namespace panpipe {

struct SlotUnit {
  std::string block;     // units of one block stay together if there are enough blocks; "" = none
  Duration forward{0};   // or any proportional numbers
  Duration backward{0};  // with the recompute before it; the slot that turns takes as long for forward and backward
};

struct UnitRange {
  int first = 0, end = 0;
};

// In the order of a microbatch's path: `forward` slots over the units before the turn, ascending; the turn; `backward` - 1 slots
// over the same units, descending. The longest slot is as short as it can be. Throws InputError if there are too few units.
std::vector<UnitRange> slot_ranges(const std::vector<SlotUnit>& units, int forward, int backward);

// Numbers of forward slots, and of backward slots with the turn, of the schedule's chains; 0, 0 if every stage runs both ways.
struct SlotCounts {
  int forward = 0, backward = 0;
  bool any() const { return forward > 0; }
};
SlotCounts slot_counts(const Schedule& schedule);

}  // namespace panpipe
