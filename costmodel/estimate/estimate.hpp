// Times of a lowered plan on idle links. docs/models/estimate.md.
#pragma once

#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

// Throws NoAnswer with each rank's blocked action and the cycle when the order cannot finish.
Timeline estimate(const TaskGraph& graph);
// The times alone, without building a timeline; those of the collectives inside passes only on request.
TaskTimes estimate_times(const TaskGraph& graph, bool with_collectives = false);
// The same times, with the collectives inside the passes of one device alone: what its exposed communication is from.
TaskTimes estimate_times_of(const TaskGraph& graph, std::int32_t device);

}  // namespace panpipe
