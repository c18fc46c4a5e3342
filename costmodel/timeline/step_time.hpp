// The duration of a step from the times of its tasks, and the period of steps that overlap because no rank waits for the others
// between them. Definitions: docs/models/metrics.md.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "costmodel/timeline/intervals.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

// The end of the last task. No transfer ends later, because a task waits for it.
Ticks step_end(const TaskTimes& times);

// Several steps without a flush between them (schedule/rolling.hpp), in the unit of the times.
struct RolledSteps {
  int steps = 1;  // in a window
  std::map<std::int32_t, Interval>
      windows;            // per rank, or per device with spans: from the end of an update to that of a later one
  double first_step = 0;  // from idle ranks to the last rank's first update

  double period() const;  // the longest window over its steps: what a step takes
};
// nullopt: one step, which ends with a flush.
std::optional<RolledSteps> rolled_steps(const TaskGraph& graph, const TaskTimes& times);  // by rank, ticks
std::optional<RolledSteps> rolled_steps(const Timeline& timeline);                        // by device, seconds

// What a step takes: its end, or the period of steps in a row.
Ticks step_time(const TaskGraph& graph, const TaskTimes& times);

// The period of rolling steps, ticks: the longest span of a rank, from the start of its first to the end of its last entry on the
// compute lane.
double step_period(const TaskGraph& graph, const TaskTimes& times);
double step_period(const std::vector<Interval>& of_ranks);  // of these spans

}  // namespace panpipe
