// A device's memory over a step: the bytes that its tasks take and give back, in addition to its static parts.
#pragma once

#include <vector>

#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

// Fills `memory`, `static_parts`, `peak_parts`, `peak` and `limit` of `device` from the tasks of a rank of the graph. A task
// allocates `take` and `temporary` when it starts, and returns `give` and `temporary` when it ends. Static and dynamic memory,
// except the context, is multiplied by the rank's allocator factor. O(tasks).
void add_memory(const TaskGraph& graph, const TaskTimes& times, int rank, DeviceTimeline& device);

// The memory alone, of one device of each rank.
std::vector<DeviceTimeline> memory_of_ranks(const TaskGraph& graph, const TaskTimes& times);

}  // namespace panpipe
