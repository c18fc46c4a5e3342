// Measures a rank's steps (memory by the allocator's count, clocks against rank 0's) and collects the ranks' spans.
#pragma once

#include <optional>
#include <vector>

#include "costmodel/timeline/timeline.hpp"
#include "exec/engine/measure/clock_offset.hpp"
#include "exec/engine/measure/device_memory.hpp"
#include "exec/engine/measure/memory_account.hpp"
#include "exec/engine/parameters.hpp"
#include "exec/engine/run/run.hpp"
#include "exec/engine/worker.hpp"

namespace panpipe::exec {

class Recorder {
 public:
  // Construct it on the rank's thread before anything is allocated for the run. All ranks together, because clocks are compared.
  Recorder(const PreparedRun& run, Transport& transport);

  void begin_step(const SeededParameters& parameters);  // right after the barrier
  void end_step(StepResult& result, const SeededParameters& parameters);

  // All ranks call this together. Rank 0 gets the timeline of the step with the median time, the others an empty one. `measured`:
  // this rank's steps without the warm-up.
  Timeline gather(const std::vector<StepResult>& measured);

 private:
  const PreparedRun& run_;
  Transport& transport_;
  MemoryAccount account_;
  std::optional<DeviceMemory> memory_;  // of the parameters' device
  ClockReading first_;
};

}  // namespace panpipe::exec
