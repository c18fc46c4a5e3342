// The metrics of a lowered step from the times of its tasks. They equal those of its timeline, but no timeline is made: its spans
// take most of a prediction's time, and few callers need them.
#pragma once

#include "costmodel/timeline/device_sums.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

// The activity of each of these devices. Collectives inside passes count if `times` contains them (estimate_times).
std::vector<DeviceIntervals> intervals_of(const TaskGraph& graph, const TaskTimes& times,
                                          const std::vector<std::int32_t>& devices);

// The timeline without its spans.
Timeline spanless_timeline(const TaskGraph& graph, const TaskTimes& times, TimelineKind kind);

bool all_finite(const TaskTimes& times);

// Equal to metrics(make_timeline(graph, times, kind)), to the last digit.
Metrics step_metrics(const TaskGraph& graph, const TaskTimes& times, TimelineKind kind);

}  // namespace panpipe
