#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "exec/engine/measure/device_memory.hpp"
#include "exec/engine/measure/gather.hpp"
#include "exec/engine/run/deadline.hpp"
#include "exec/engine/run/run.hpp"
#include "exec/engine/run/stop.hpp"
#include "exec/engine/training/training_run.hpp"

namespace panpipe::exec {
namespace {

// Allocations and releases of a step: some hundred per action. Beyond it the curve ends, the peak does not.
constexpr std::size_t kSamples = 1U << 17;

double host_now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

// Between steps nothing else of a rank is alive.
std::vector<MemoryPart> kept_parts(const SeededParameters& parameters, const DeviceMemory& memory) {
  const auto [weights, gradients] = parameters.bytes();
  const std::int64_t optimizer = std::max<std::int64_t>(0, memory.live() - weights - gradients);
  return {{MemoryUse::Parameters, Bytes(weights)},
          {MemoryUse::Gradients, Bytes(gradients)},
          {MemoryUse::Optimizer, Bytes(optimizer)}};
}

}  // namespace

Timeline run_rank(const PreparedRun& run, Transport& transport) {
  MemoryAccount account;  // before anything is allocated for the run
  const auto read_clock = [&] { return read_clock_offset(transport, this_boot(), host_now, deadline_of(run.request)); };
  try {
    const ClockReading first = read_clock();
    TrainingRun training(run, transport);
    const SeededParameters& parameters = training.trainer().parameters();
    const bool trained = !parameters.trained().empty();
    DeviceMemory memory(trained ? parameters.trained().begin()->second.device() : at::Device(at::kCPU), account,
                        DeviceMemory::Count::Allocated);
    std::vector<StepResult> measured;
    while (training.next()) {
      memory.begin(kSamples);  // right behind the barrier
      StepResult result = training.step();
      result.memory = memory.end();
      result.kept = kept_parts(parameters, memory);
      if (training.measured()) measured.push_back(std::move(result));
    }
    return gather_timeline(run, transport, measured, {first, read_clock()});
  } catch (const PeerLost&) {
    throw;
  } catch (const Stopped&) {
    throw;  // all ranks stop together
  } catch (const InputError& error) {
    transport.refuse(error);
    throw;
  } catch (const std::exception& error) {
    const std::string why = error.what();
    transport.abort(why.substr(0, why.find('\n')));  // nobody waits for this rank until the deadline
    throw;
  }
}

}  // namespace panpipe::exec
