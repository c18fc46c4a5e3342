// Collects the ranks' spans into one timeline with one time axis.
#pragma once

#include <vector>

#include "costmodel/timeline/timeline.hpp"
#include "exec/engine/measure/clock_offset.hpp"
#include "exec/engine/run/run.hpp"
#include "exec/engine/worker.hpp"

namespace panpipe::exec {

// Clock readings of this rank before and after the steps.
struct ClockReadings {
  ClockReading first, last;
};

// `steps`: this rank's measured steps. Rank 0 gets the timeline of the step with the median time, the others an empty one. Time 0
// is the earliest end of the barrier before the step.
Timeline gather_timeline(const PreparedRun& run, Transport& transport, const std::vector<StepResult>& steps,
                         const ClockReadings& clock);

// Joins both ends of every transfer. A send and its receive, identified by (sender, receiver, tag in flow_id), get one flow id
// and one end, the arrival. A receive starts once it is posted and its message is sent. Sorts by device, lane and start.
void join_transfers(std::vector<Span>& spans);

}  // namespace panpipe::exec
