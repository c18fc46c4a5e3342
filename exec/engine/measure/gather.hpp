// Brings the ranks' spans together: one timeline, one time axis.
#pragma once

#include <vector>

#include "costmodel/timeline/timeline.hpp"
#include "exec/engine/measure/clock_offset.hpp"
#include "exec/engine/run/run.hpp"
#include "exec/engine/worker.hpp"

namespace panpipe::exec {

// This rank's clock before and after the steps.
struct ClockReadings {
  ClockReading first, last;
};

// `steps`: this rank's measured steps. Rank 0 gets the timeline of the step with the median time, the others an empty one. Time 0
// is the end of the barrier before the step, where it ended first.
Timeline gather_timeline(const PreparedRun& run, Transport& transport, const std::vector<StepResult>& steps,
                         const ClockReadings& clock);

// Puts both ends of every transfer together: a send and its receive, told by (sender, receiver, tag in flow_id), get one flow id
// and one end, the arrival; a receive starts when it was posted and its message handed over. Sorts by device, lane and start.
void join_transfers(std::vector<Span>& spans);

}  // namespace panpipe::exec
