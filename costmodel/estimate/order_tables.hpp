// The tables of a packed order's structure, from a lowered plan: what searches fill batches with.
#pragma once

#include <vector>

#include "costmodel/estimate/pipeline_order.hpp"
#include "costmodel/plan/task_graph.hpp"

namespace panpipe {

struct OrderTables {
  std::vector<double> costs, delays;  // ticks; as the structure of the order indexes them
};

// Durations of the plan's passes and groups, delays of its hand-overs. The graph is one of the order's schedule; replaying gives
// estimate_times' step to the last tick, without optimizer and data-parallel collectives. InputError, with the remedy, where the
// plan does what a block with a fixed duration cannot: ranks that wait for their sends, cells that overlap their neighbours or
// deliver before their end, hand-overs that skip stages, copies to the host.
OrderTables tables_of(const PipelineOrder& order, const TaskGraph& graph);

}  // namespace panpipe
