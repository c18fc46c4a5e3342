// The devices of this process, and each thread's current one.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace panpipe::stand_in {

int device_count();               // those that CUDA_VISIBLE_DEVICES leaves of STAND_IN_GPUS
int physical_device(int device);  // its number on the host
int current_device();
void set_current_device(int device);
std::size_t device_memory();  // bytes of one device
struct Capability {
  int major, minor;
};
Capability capability();  // STAND_IN_CAPABILITY

// CUDA's error of a thread: cudaGetLastError reports it once. Returns its argument.
cudaError_t remember(cudaError_t error);
// The result of functions that wait for a device: cudaErrorAssert from the first failed kernel on.
cudaError_t health();

}  // namespace panpipe::stand_in
