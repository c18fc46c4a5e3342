#include "tests/stand_in_gpu/cuda/memory.hpp"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "tests/stand_in_gpu/cuda/counts.hpp"
#include "tests/stand_in_gpu/cuda/devices.hpp"
#include "tests/stand_in_gpu/cuda/streams.hpp"

namespace panpipe::stand_in {
namespace {

// Unwritten memory reads as not a number, in every floating-point type.
constexpr int kUnwritten = 0xFF;
// As aligned as CUDA's allocations (CUDA C++ Programming Guide, device memory accesses: at least 256 bytes) and its pages.
constexpr std::size_t kDeviceAlignment = 512, kHostAlignment = 4096;

struct Block {
  std::size_t size;
  int device;  // -1: pinned memory of the host
};

struct Memory {
  std::mutex lock;
  std::map<const char*, Block> blocks;
  std::vector<std::size_t> used = std::vector<std::size_t>(static_cast<std::size_t>(device_count()));

  // The block that an address lies in; null where there is none. The lock is held.
  const Block* find(const void* address) const {
    auto next = blocks.upper_bound(static_cast<const char*>(address));
    if (next == blocks.begin()) return nullptr;
    --next;
    return static_cast<const char*>(address) < next->first + next->second.size ? &next->second : nullptr;
  }
  void add(const void* address, Block block) {
    const std::lock_guard hold(lock);
    blocks[static_cast<const char*>(address)] = block;
  }
  void remove(const void* address) {
    const std::lock_guard hold(lock);
    blocks.erase(static_cast<const char*>(address));
  }
};
Memory& memory() {
  static auto* instance = new Memory;
  return *instance;
}

}  // namespace

bool is_pinned(const void* address) {
  const std::lock_guard hold(memory().lock);
  const Block* block = memory().find(address);
  return block && block->device < 0;
}

int device_of(const void* address) {
  const std::lock_guard hold(memory().lock);
  const Block* block = memory().find(address);
  return block ? block->device : -1;
}

}  // namespace panpipe::stand_in

using namespace panpipe::stand_in;

extern "C" {

cudaError_t cudaMalloc(void** address, size_t size) {
  count("cudaMalloc");
  *address = nullptr;
  if (size == 0) return cudaSuccess;
  const int device = current_device();
  {
    const std::lock_guard hold(memory().lock);
    std::size_t& used = memory().used.at(static_cast<std::size_t>(device));
    if (used + size > device_memory()) return remember(cudaErrorMemoryAllocation);
    used += size;
  }
  if (posix_memalign(address, kDeviceAlignment, size) != 0) return remember(cudaErrorMemoryAllocation);
  std::memset(*address, kUnwritten, size);
  memory().add(*address, {size, device});
  return cudaSuccess;
}

// CUDA waits until the device has done everything: it cannot know who still uses the memory.
cudaError_t cudaFree(void* address) {
  if (!address) return cudaSuccess;
  const int device = device_of(address);
  if (device < 0) return remember(cudaErrorInvalidValue);
  count_host_wait("cudaFree");
  wait_for_device(device);
  {
    const std::lock_guard hold(memory().lock);
    memory().used.at(static_cast<std::size_t>(device)) -= memory().find(address)->size;
    memory().blocks.erase(static_cast<const char*>(address));
  }
  std::free(address);
  return cudaSuccess;
}

cudaError_t cudaMallocAsync(void** address, size_t size, cudaStream_t) { return cudaMalloc(address, size); }
cudaError_t cudaFreeAsync(void* address, cudaStream_t) { return cudaFree(address); }

cudaError_t cudaMemGetInfo(size_t* available, size_t* all) {
  const std::lock_guard hold(memory().lock);
  *all = device_memory();
  *available = *all - memory().used.at(static_cast<std::size_t>(current_device()));
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** address, size_t size, unsigned) {
  if (posix_memalign(address, kHostAlignment, size) != 0) return remember(cudaErrorMemoryAllocation);
  memory().add(*address, {size, -1});
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** address, size_t size) { return cudaHostAlloc(address, size, cudaHostAllocDefault); }
cudaError_t cudaFreeHost(void* address) {
  memory().remove(address);
  std::free(address);
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void* address, size_t size, unsigned) {
  memory().add(address, {size, -1});
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* address) {
  memory().remove(address);
  return cudaSuccess;
}
cudaError_t cudaHostGetDevicePointer(void** device_address, void* address, unsigned) {
  *device_address = address;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  auto* writable = const_cast<void*>(address);
  const int device = device_of(address);
  *attributes = {};
  if (device >= 0) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->device = device;
    attributes->devicePointer = writable;
  } else {
    attributes->type = is_pinned(address) ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
    attributes->hostPointer = writable;
  }
  return cudaSuccess;
}
}
