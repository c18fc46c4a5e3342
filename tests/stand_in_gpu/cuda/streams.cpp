#include "tests/stand_in_gpu/cuda/streams.hpp"

#include <pthread.h>

#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/stand_in_gpu/cuda/counts.hpp"
#include "tests/stand_in_gpu/cuda/devices.hpp"
#include "tests/stand_in_gpu/cuda/work.hpp"
#include "tests/stand_in_gpu/settings.hpp"

namespace panpipe::stand_in {
namespace {

// A pause before each piece of work, so that streams overtake one another differently every time.
class Jitter {
 public:
  void pause() {
    if (longest_ > 0) std::this_thread::sleep_for(std::chrono::microseconds(random_() % static_cast<unsigned>(longest_)));
  }

 private:
  const long longest_ = number_setting("STAND_IN_JITTER_US", 0);
  std::minstd_rand random_{std::random_device{}()};
};

bool spinning() {
  static const bool asked = number_setting("STAND_IN_SPIN", 0) != 0;
  return asked;
}

// All streams live until the process ends: their threads may be inside a piece of work that never does.
struct Streams {
  std::mutex lock;
  std::vector<Stream*> all, defaults;
  Streams() {
    for (int device = 0; device < device_count(); ++device) defaults.push_back(new Stream(device));
    all = defaults;
  }
};
Streams& streams() {
  static auto* instance = new Streams;
  return *instance;
}

// The null stream, cudaStreamLegacy and cudaStreamPerThread are numbers, not addresses.
bool is_default(cudaStream_t handle) { return reinterpret_cast<std::uintptr_t>(handle) <= 2; }

}  // namespace

void Stream::enqueue(std::function<void()> work) {
  const std::lock_guard hold(lock_);
  if (enqueued_++ == 0) std::thread([this] { run(); }).detach();
  waiting_.push_back(std::move(work));
  changed_.notify_all();
}

bool Stream::idle() {
  const std::lock_guard hold(lock_);
  return done_ == enqueued_;
}

void Stream::wait() {
  std::unique_lock hold(lock_);
  const std::uint64_t until = enqueued_;
  if (!spinning()) return changed_.wait(hold, [&] { return done_ >= until; });
  while (done_ < until) {
    hold.unlock();
    hold.lock();
  }
}

void Stream::run() {
  pthread_setname_np(pthread_self(), ("gpu " + std::to_string(device_) + " stream").c_str());
  set_current_device(device_);
  Jitter jitter;
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock hold(lock_);
      changed_.wait(hold, [&] { return !waiting_.empty(); });
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    jitter.pause();
    work();
    work = nullptr;  // what it holds is given back before anybody hears that it is done
    const std::lock_guard hold(lock_);
    ++done_;
    changed_.notify_all();
  }
}

Stream& stream_of(cudaStream_t handle, int device) {
  if (is_default(handle)) return *streams().defaults.at(static_cast<std::size_t>(device));
  return *reinterpret_cast<Stream*>(handle);
}
Stream& stream_of(cudaStream_t handle) { return stream_of(handle, current_device()); }

void wait_for_device(int device) {
  std::vector<Stream*> all;
  {
    const std::lock_guard hold(streams().lock);
    for (Stream* stream : streams().all)
      if (stream->device() == device) all.push_back(stream);
  }
  for (Stream* stream : all) stream->wait();
}

}  // namespace panpipe::stand_in

using namespace panpipe::stand_in;

extern "C" {

void stand_in_enqueue(int device, cudaStream_t stream, void (*run)(void*), void* state) {
  stream_of(stream, device).enqueue([run, state] { run(state); });
}
void stand_in_drain(int device, cudaStream_t stream) { stream_of(stream, device).wait(); }

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;  // as CUDA answers on recent devices
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* handle, unsigned, int) {
  auto* stream = new Stream(current_device());
  const std::lock_guard hold(streams().lock);
  streams().all.push_back(stream);
  *handle = reinterpret_cast<cudaStream_t>(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamGetPriority(cudaStream_t, int* priority) {
  *priority = 0;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned flags) {
  return cudaStreamCreateWithPriority(handle, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* handle) { return cudaStreamCreateWithPriority(handle, 0, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  count("cudaStreamQuery");
  if (!stream_of(handle).idle()) return cudaErrorNotReady;
  return health();
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  count_host_wait("cudaStreamSynchronize");
  stream_of(handle).wait();
  return health();
}

cudaError_t cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t callback, void* data, unsigned) {
  stream_of(handle).enqueue([=] { callback(handle, cudaSuccess, data); });
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  stream_of(handle).enqueue([=] { function(data); });
  return cudaSuccess;
}

// Nothing is ever captured into a graph.
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t*,
                                     const cudaGraphNode_t**, const cudaGraphEdgeData**, size_t*) {
  *status = cudaStreamCaptureStatusNone;
  if (id) *id = 0;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }
}
