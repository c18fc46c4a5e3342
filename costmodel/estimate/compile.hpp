// From any lowered plan to a Structure and its tables.
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/estimate/structure.hpp"
#include "costmodel/plan/prices.hpp"

namespace panpipe {

struct CompiledGraph {
  Structure structure;
  std::vector<double> costs, delays;         // ticks; the structure's tables
  std::vector<std::uint32_t> task_node;      // of each task: the structure's task that does its work
  std::vector<std::uint32_t> ready_node;     // of each task: the one after which its outputs exist (a group's last)
  std::vector<std::uint32_t> receiver_node;  // of each transfer: the one after which its receiver takes it; empty = at any time
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
