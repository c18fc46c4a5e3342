// The figures of a lowered step from when its tasks run. They are those of its timeline, without the timeline: its spans are most
// of what a prediction costs, and few callers look at them.
#pragma once

#include "costmodel/timeline/device_sums.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

// What runs on each of these devices. Collectives inside passes are counted where `times` notes them (estimate_times).
std::vector<DeviceIntervals> intervals_of(const TaskGraph& graph, const TaskTimes& times,
                                          const std::vector<std::int32_t>& devices);

// The timeline without its spans.
Timeline spanless_timeline(const TaskGraph& graph, const TaskTimes& times, TimelineKind kind);

bool all_finite(const TaskTimes& times);

// As metrics(make_timeline(graph, times, kind)), to the last digit.
Metrics step_metrics(const TaskGraph& graph, const TaskTimes& times, TimelineKind kind);

}  // namespace panpipe
