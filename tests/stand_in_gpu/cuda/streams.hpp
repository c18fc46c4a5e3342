// Streams and events. A stream is a thread that does in order what is enqueued; an event is a place in that order.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

namespace panpipe::stand_in {

class Stream {
 public:
  explicit Stream(int device) : device_(device) {}
  int device() const { return device_; }
  void enqueue(std::function<void()> work);
  bool idle();
  // Until everything that was enqueued before the call is done; busily with STAND_IN_SPIN=1, as CUDA waits by default.
  void wait();

 private:
  void run();
  const int device_;
  std::mutex lock_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  std::uint64_t enqueued_ = 0, done_ = 0;
};

// The stream of a handle; the default streams' handles mean that of the device.
Stream& stream_of(cudaStream_t handle, int device);
// Of the current device, where it is a default stream.
Stream& stream_of(cudaStream_t handle);
// Until all streams of the device have done what was enqueued before the call.
void wait_for_device(int device);

}  // namespace panpipe::stand_in
