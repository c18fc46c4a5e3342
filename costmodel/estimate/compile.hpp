// Compiles a lowered plan to a Structure and its tables, to replay one order with many costs. A cell becomes one number, its
// program's duration. The result is as exact as the estimate where durations_are_fixed (lowering/pass_lanes.hpp).
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/estimate/structure.hpp"
#include "costmodel/lowering/prices.hpp"

namespace panpipe {

struct CompiledGraph {
  Structure structure;
  std::vector<double> costs, delays;     // ticks; the structure's tables
  std::vector<std::uint32_t> task_node;  // per task: the structure's task with its work; members of a group share one
};

// Tables: costs[0] = 0, then one entry per program, then one per flow; delays[0] = 0, then one per link, then one per point
// inside a pass (measured from its end, so at most 0). Equal structures can therefore be replayed with other costs. Throws
// NoAnswer with to_text of the deadlock if the order cannot finish.
CompiledGraph compile(const TaskGraph& graph);

// Only the tables.
struct CostTables {
  std::vector<double> costs, delays;
};
CostTables tables_of(const Prices& prices);

}  // namespace panpipe
