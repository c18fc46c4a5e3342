// Computes the times of a lowered plan on idle links. docs/models/estimate.md.
#pragma once

#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

// Throws NoAnswer with each rank's blocked action and the cycle if the order cannot finish.
Timeline estimate(const TaskGraph& graph);
// Only the times, without a timeline. The times of collectives inside passes are computed only on request.
TaskTimes estimate_times(const TaskGraph& graph, bool with_collectives = false);
// The same times, with the collectives inside the passes of one device, from which its exposed communication is computed.
TaskTimes estimate_times_of(const TaskGraph& graph, std::int32_t device);

}  // namespace panpipe
