// Work on the stand-in's streams, for its other libraries (NCCL, the kernels): what libcudart offers them in addition to CUDA's
// functions.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

extern "C" {
// Calls run(state) in the order of the stream. The default stream (a null pointer) is that of `device`.
void stand_in_enqueue(int device, cudaStream_t stream, void (*run)(void*), void* state);
// Returns when everything that was enqueued until now is done. Counted as no synchronisation of the host.
void stand_in_drain(int device, cudaStream_t stream);
// One more of `what` in STAND_IN_COUNTS. The text must live as long as the process.
void stand_in_count(const char* what);
// A kernel failed: from now on what waits for a device answers cudaErrorAssert, as after an assertion in a kernel.
void stand_in_break(const char* why);
}

namespace panpipe::stand_in {

template <class Function>
void enqueue(int device, cudaStream_t stream, Function function) {
  stand_in_enqueue(
      device, stream,
      [](void* state) {
        auto* own = static_cast<Function*>(state);
        (*own)();
        delete own;
      },
      new Function(std::move(function)));
}

}  // namespace panpipe::stand_in
