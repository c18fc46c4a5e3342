// Events: each record is a new generation, which its stream reaches some time later. Waiting means the newest generation that
// was recorded before the call, as in CUDA; an event that was never recorded is complete.
#include <chrono>
#include <memory>

#include "tests/stand_in_gpu/cuda/counts.hpp"
#include "tests/stand_in_gpu/cuda/devices.hpp"
#include "tests/stand_in_gpu/cuda/streams.hpp"
#include "tests/stand_in_gpu/settings.hpp"

namespace panpipe::stand_in {
namespace {

using Clock = std::chrono::steady_clock;

// Shared with the streams that will reach or await it: an event may be destroyed before they come to it.
struct EventState {
  std::mutex lock;
  std::condition_variable reached;
  std::uint64_t recorded = 0, done = 0;
  Clock::time_point time;

  void reach(std::uint64_t generation) {
    const std::lock_guard hold(lock);
    if (generation > done) {
      done = generation;
      time = Clock::now();
    }
    reached.notify_all();
  }
  void wait(std::uint64_t generation) {
    std::unique_lock hold(lock);
    reached.wait(hold, [&] { return done >= generation; });
  }
  std::uint64_t newest() {
    const std::lock_guard hold(lock);
    return recorded;
  }
  bool complete() {
    const std::lock_guard hold(lock);
    return done >= recorded;
  }
};

struct Event {
  int device;
  bool timed;
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
};

Event& event_of(cudaEvent_t handle) { return *reinterpret_cast<Event*>(handle); }

}  // namespace
}  // namespace panpipe::stand_in

using namespace panpipe::stand_in;

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned flags) {
  *handle = reinterpret_cast<cudaEvent_t>(new Event{current_device(), (flags & cudaEventDisableTiming) == 0});
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* handle) { return cudaEventCreateWithFlags(handle, cudaEventDefault); }
cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  delete &event_of(handle);
  return cudaSuccess;
}

// CUDA refuses a stream of another device than the event's.
cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t on) {
  count("cudaEventRecord");
  Event& event = event_of(handle);
  Stream& stream = stream_of(on);
  if (stream.device() != event.device) return remember(cudaErrorInvalidResourceHandle);
  std::uint64_t generation = 0;
  {
    const std::lock_guard hold(event.state->lock);
    generation = ++event.state->recorded;
  }
  stream.enqueue([state = event.state, generation] { state->reach(generation); });
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t on, unsigned) { return cudaEventRecord(handle, on); }

cudaError_t cudaStreamWaitEvent(cudaStream_t waiting, cudaEvent_t handle, unsigned) {
  count("cudaStreamWaitEvent");
  const std::shared_ptr<EventState> state = event_of(handle).state;
  if (const std::uint64_t generation = state->newest(); generation > 0)
    stream_of(waiting).enqueue([state, generation] { state->wait(generation); });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  count("cudaEventQuery");
  if (!event_of(handle).state->complete()) return cudaErrorNotReady;
  return health();
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  count_host_wait("cudaEventSynchronize");
  const std::shared_ptr<EventState> state = event_of(handle).state;
  if (number_setting("STAND_IN_SPIN", 0) != 0)
    while (!state->complete()) continue;
  else
    state->wait(state->newest());
  return health();
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  count("cudaEventElapsedTime");
  Event &first = event_of(from), &second = event_of(to);
  if (!first.timed || !second.timed || first.state->newest() == 0 || second.state->newest() == 0)
    return remember(cudaErrorInvalidResourceHandle);
  if (!first.state->complete() || !second.state->complete()) return remember(cudaErrorNotReady);
  count("cudaEventElapsedTime");
  *milliseconds = std::chrono::duration<float, std::milli>(second.state->time - first.state->time).count();
  return cudaSuccess;
}
}
