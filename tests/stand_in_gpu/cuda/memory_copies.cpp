// Copies and fills, in stream order. One that has pageable memory of the host at an end stops the host until it is done; CUDA
// then copies through a buffer of its own (CUDA Runtime API, "API synchronization behavior").
#include <cuda_runtime_api.h>

#include <cstring>

#include "tests/stand_in_gpu/cuda/counts.hpp"
#include "tests/stand_in_gpu/cuda/devices.hpp"
#include "tests/stand_in_gpu/cuda/memory.hpp"
#include "tests/stand_in_gpu/cuda/streams.hpp"
#include "tests/stand_in_gpu/settings.hpp"

using namespace panpipe::stand_in;

namespace {

bool is_pageable(const void* address) { return device_of(address) < 0 && !is_pinned(address); }

void copy(void* to, const void* from, std::size_t size) {
  if (is_copied(size)) std::memmove(to, from, size);
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind, cudaStream_t on) {
  count("copies");
  Stream& stream = stream_of(on);
  stream.enqueue([=] { copy(to, from, size); });
  if (is_pageable(to) || is_pageable(from)) {
    count_host_wait("pageable_copies");
    stream.wait();
    return health();
  }
  return cudaSuccess;
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t size, cudaStream_t on) {
  return cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, on);
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind) {
  count("copies");
  count_host_wait("cudaMemcpy");
  Stream& stream = stream_of(nullptr);
  stream.enqueue([=] { copy(to, from, size); });
  stream.wait();
  return health();
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                              cudaMemcpyKind, cudaStream_t on) {
  count("copies");
  Stream& stream = stream_of(on);
  stream.enqueue([=] {
    if (!is_copied(width * height)) return;
    for (size_t row = 0; row < height; ++row)
      std::memmove(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width);
  });
  if (is_pageable(to) || is_pageable(from)) {
    count_host_wait("pageable_copies");
    stream.wait();
    return health();
  }
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t size, cudaStream_t on) {
  if (is_copied(size)) stream_of(on).enqueue([=] { std::memset(to, value, size); });
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, size_t size) { return cudaMemsetAsync(to, value, size, nullptr); }
}
