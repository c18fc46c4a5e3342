// Measures a rank's steps: memory by the allocator's count, clocks against rank 0's; and brings the ranks' spans together.
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
  // Before anything is allocated for the run, on the thread of the rank. All ranks together: clocks are compared.
  Recorder(const PreparedRun& run, Transport& transport);

  void begin_step(const SeededParameters& parameters);  // right after the barrier
  void end_step(StepResult& result, const SeededParameters& parameters);

  // All ranks together. Rank 0 gets the timeline of the step with the median time, the others an empty one. `measured`: this
  // rank's steps without the warm-up.
  Timeline gather(const std::vector<StepResult>& measured);

 private:
  const PreparedRun& run_;
  Transport& transport_;
  MemoryAccount account_;
  std::optional<DeviceMemory> memory_;  // of the device the parameters lie on
  ClockReading first_;
};

}  // namespace panpipe::exec
