// The duration of a step from the times of its tasks, and the period of steps that overlap because no rank waits for the others
// between them. Definitions: docs/models/metrics.md.
#pragma once

#include <vector>

#include "costmodel/timeline/intervals.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

// The end of the last task. No transfer ends later, because a task waits for it.
Ticks step_end(const TaskTimes& times);

// The period of rolling steps: the longest span of a rank, from the start of its first to the end of its last entry on the
// compute lane. In the unit of the spans.
double step_period(const std::vector<Interval>& compute_spans);
double step_period(const Timeline& timeline);                        // seconds
double step_period(const TaskGraph& graph, const TaskTimes& times);  // ticks

}  // namespace panpipe
