#include <vector>

#include "base/error.hpp"
#include "exec/engine/measure/recorder.hpp"
#include "exec/engine/run/run.hpp"
#include "exec/engine/run/stop.hpp"
#include "exec/engine/training/training_run.hpp"
#include "exec/engine/transport/common_end.hpp"

namespace panpipe::exec {

Timeline run_rank(const PreparedRun& run, Transport& transport) {
  Recorder recorder(run, transport);
  std::vector<StepResult> measured;
  try {
    TrainingRun training(run, transport);
    while (training.next()) {
      recorder.begin_step(training.trainer().parameters());
      StepResult result = training.step();
      recorder.end_step(result, training.trainer().parameters());
      if (training.measured()) measured.push_back(std::move(result));
    }
    return recorder.gather(measured);
  } catch (const PeerLost&) {
    throw;
  } catch (const Stopped&) {
    throw;  // all ranks stop together
  } catch (const InputError& error) {
    refuse(transport, error);
    throw;
  } catch (const std::exception& error) {
    const std::string why = error.what();
    transport.abort(why.substr(0, why.find('\n')));  // nobody waits for this rank until the deadline
    throw;
  }
}

}  // namespace panpipe::exec
