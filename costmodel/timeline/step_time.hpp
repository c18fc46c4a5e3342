// How long a step takes, from when its tasks run; and how soon steps follow each other where no rank waits for the others
// between them. Definitions: docs/models/metrics.md.
#pragma once

#include <vector>

#include "costmodel/timeline/intervals.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

// The end of the last task. No transfer ends later: a task waits for it.
Ticks step_end(const TaskTimes& times);

// The period of rolling steps: the longest of the ranks' own spans, each from the start of its first entry on the compute lane to
// the end of its last. In the unit of the spans.
double step_period(const std::vector<Interval>& compute_spans);
double step_period(const Timeline& timeline);                        // seconds
double step_period(const TaskGraph& graph, const TaskTimes& times);  // ticks

}  // namespace panpipe
