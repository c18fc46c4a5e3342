// The fast replay: end = max(end[lane predecessor], end[source] + delay) + cost, on idle links.
#pragma once

#include "costmodel/plan/task_graph.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

// Throws NoAnswer with each rank's blocked action and the cycle when the order cannot finish.
Timeline estimate(const TaskGraph& graph);
// The times alone, without building a timeline.
TaskTimes estimate_times(const TaskGraph& graph);

}  // namespace panpipe
