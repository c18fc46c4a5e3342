// A step's order without its costs: built once, then replayed with many cost tables by searches.
#pragma once

#include <cstdint>
#include <vector>

namespace panpipe {

// A straight-line program over values (end times, in ticks). Value 0 is the constant zero; task t writes value t:
//   end[t] = max(end[lane_pred[t]], end[src[t]] + delays[delay[t]]) + costs[cost[t]],   t = 1 .. tasks
// Tasks are sorted by level (tasks that become ready after the same number of rounds are adjacent), so neighbours do not depend
// on each other and a processor can overlap them. Entry 0 of both tables must be 0. A task with more inputs is preceded by tasks
// of no cost. All vectors have tasks + 1 entries; entry 0 is unused.
struct Structure {
  std::uint32_t tasks = 0;
  std::vector<std::uint32_t> lane_pred, src;
  std::vector<std::uint16_t> cost, delay;
  std::uint32_t cost_entries = 1, delay_entries = 1;  // sizes of the tables
  std::vector<std::uint32_t> lane_last;               // last task of every lane, 0 for a lane without tasks
};

// The same program with values in as few slots as are alive at once. Batches of plans use it if one value per task would not fit
// in the cache. Slot 0 is the constant zero.
struct SlotProgram {
  std::uint32_t tasks = 0;
  std::uint32_t slots = 0;
  std::vector<std::uint16_t> lane_pred, src, out, cost, delay;  // tasks entries
  std::vector<std::uint16_t> lane_last;
};

// Empty (tasks = 0) if more than 65,536 values are alive at once.
SlotProgram recycle_slots(const Structure& structure);

// Makes room for `tasks` tasks. Memory is kept, so a Structure can be reused without allocation.
void resize(Structure& structure, std::uint32_t tasks);

}  // namespace panpipe
