#include "exec/engine/measure/recorder.hpp"

#include <algorithm>

#include "exec/engine/measure/gather.hpp"
#include "exec/engine/run/deadline.hpp"

namespace panpipe::exec {
namespace {

// Allocations and releases of a step: some hundred per action. Beyond it the curve ends, the peak does not.
constexpr std::size_t kSamples = 1U << 17;

double now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

}  // namespace

Recorder::Recorder(const PreparedRun& run, Transport& transport)
    : run_(run), transport_(transport), first_(read_clock_offset(transport, this_boot(), now, deadline_of(run.request))) {}

void Recorder::begin_step(const SeededParameters& parameters) {
  if (!memory_) {
    const bool trained = !parameters.trained().empty();
    memory_.emplace(trained ? parameters.trained().begin()->second.device() : at::Device(at::kCPU), account_,
                    DeviceMemory::Count::Allocated);
  }
  memory_->begin(kSamples);
}

void Recorder::end_step(StepResult& result, const SeededParameters& parameters) {
  result.memory = memory_->end();
  const auto [weights, gradients] = parameters.bytes();
  // Between steps nothing else of a rank is alive.
  const std::int64_t optimizer = std::max<std::int64_t>(0, memory_->live() - weights - gradients);
  result.kept = {{MemoryUse::Parameters, Bytes(weights)},
                 {MemoryUse::Gradients, Bytes(gradients)},
                 {MemoryUse::Optimizer, Bytes(optimizer)}};
}

Timeline Recorder::gather(const std::vector<StepResult>& measured) {
  const ClockReading last = read_clock_offset(transport_, this_boot(), now, deadline_of(run_.request));
  return gather_timeline(run_, transport_, measured, {first_, last});
}

}  // namespace panpipe::exec
