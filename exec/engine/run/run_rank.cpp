#include <vector>

#include "exec/engine/measure/recorder.hpp"
#include "exec/engine/run/run.hpp"
#include "exec/engine/training/trainer.hpp"

namespace panpipe::exec {

Timeline run_rank(const PreparedRun& run, Transport& transport) {
  const auto deadline = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(run.request.deadline_s));
  Recorder recorder(run, transport);
  Trainer trainer(run, transport);
  std::vector<StepResult> measured;
  try {
    for (int step = 0; step < run.request.warmup + run.request.steps; ++step) {
      transport.barrier(deadline, "the start of a step");
      recorder.begin_step();
      StepResult result = trainer.step(step);
      recorder.end_step(result, trainer.parameters());
      if (step >= run.request.warmup) measured.push_back(std::move(result));
    }
  } catch (const PeerLost&) {
    throw;
  } catch (const std::exception& error) {
    transport.abort(error.what());  // nobody waits for this rank until the deadline
    throw;
  }
  return recorder.gather(measured);
}

}  // namespace panpipe::exec
