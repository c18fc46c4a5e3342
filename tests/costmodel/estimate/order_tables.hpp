// The tables of a packed order's structure, from a lowered plan: ties replays of orders to the estimate.
#pragma once

#include <vector>

#include "costmodel/estimate/pipeline_order.hpp"
#include "costmodel/lowering/task_graph.hpp"

namespace panpipe::test {

struct OrderTables {
  std::vector<double> costs, delays;  // ticks; as the structure of the order indexes them
};

// Durations of the plan's passes, delays of its hand-overs. The graph is one of the order's schedule, which has no groups;
// replaying gives estimate_times' step to the last tick, without optimizer and data-parallel collectives.
OrderTables tables_of(const PipelineOrder& order, const TaskGraph& graph);

}  // namespace panpipe::test
