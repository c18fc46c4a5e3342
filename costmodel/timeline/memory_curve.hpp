// A device's memory over a step: what its tasks take, hold for a while and give back, on top of its static parts.
#pragma once

#include <span>

#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

// Fills `memory`, `static_parts`, `peak_parts`, `peak` and `limit` of `device` from the tasks of a rank of the graph. A task's
// `take` and `temporary` are allocated when it starts; at its end `give` and `temporary` are returned. Static and dynamic memory,
// all but the context, is multiplied with the rank's allocator factor. O(tasks).
void add_memory(const TaskGraph& graph, const TaskTimes& times, int rank, DeviceTimeline& device);

}  // namespace panpipe
