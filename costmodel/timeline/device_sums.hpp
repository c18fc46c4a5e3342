// Time that a device computes, waits and communicates in a step. Definitions: docs/models/metrics.md.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "costmodel/timeline/intervals.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

// What an entry of a lane counts as. Copies to the host's memory run on the data lane, where they need not wait for those that
// come back on the copy lane; like these they are no communication.
inline Lane counted_lane(Lane lane, ActionKind kind) { return kind == ActionKind::Offload ? Lane::Copy : lane; }

// The activity of a device. Seconds.
struct DeviceIntervals {
  std::vector<Interval> compute, communication;
  double waiting = 0;  // inside passes, for tensor-parallel collectives
  double last_end = 0;
  // Of steps in a row: only this window counts, which holds so many steps. No entry of the compute lane crosses its ends.
  std::optional<Interval> window{};
  int steps = 1;

  void add(Lane lane, const Interval& interval, double waiting_inside = 0);
};

struct DeviceSums {
  DeviceMetrics metrics;  // without device, rank and memory
  double busy = 0;        // compute lane, including waits inside passes
  double span = 0;        // first start to last end of the compute lane
};

// Of one step. `step`: its seconds.
DeviceSums sums_of(DeviceIntervals intervals, double step);

// DeviceMetrics::exposed_communication_s of one device of a lowered step, without a timeline. Seconds.
double exposed_communication(const TaskGraph& graph, const TaskTimes& times, std::int32_t device);

}  // namespace panpipe
