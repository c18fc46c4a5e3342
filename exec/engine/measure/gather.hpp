// Brings the ranks' spans together: one timeline, one time axis.
#pragma once

#include <vector>

#include "costmodel/timeline/timeline.hpp"
#include "exec/engine/run/run.hpp"
#include "exec/engine/worker.hpp"

namespace panpipe::exec {

// `steps`: this rank's measured steps. Rank 0 gets the timeline of the step with the median time, the others an empty one.
Timeline gather_timeline(const PreparedRun& run, Transport& transport, const std::vector<StepResult>& steps);

}  // namespace panpipe::exec
