// From a lowered plan to a Structure and its tables, for whoever replays one order with many costs. A cell is a number, its
// program's duration: as exact as the estimate where durations_are_fixed (lowering/pass_lanes.hpp).
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/estimate/structure.hpp"
#include "costmodel/lowering/prices.hpp"

namespace panpipe {

struct CompiledGraph {
  Structure structure;
  std::vector<double> costs, delays;     // ticks; the structure's tables
  std::vector<std::uint32_t> task_node;  // of each task: the structure's task that does its work; a group is one
};

// Tables: costs[0] = 0, then one entry per program, then one per flow; delays[0] = 0, then one per link, then one per
// point inside a pass (from its end, so not above 0). Equal structures can therefore be replayed with other costs. Throws
// NoAnswer when the order cannot finish, with to_text of the deadlock.
CompiledGraph compile(const TaskGraph& graph);

// The tables alone.
struct CostTables {
  std::vector<double> costs, delays;
};
CostTables tables_of(const Prices& prices);

}  // namespace panpipe
