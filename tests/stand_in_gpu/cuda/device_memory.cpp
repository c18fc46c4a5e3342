#include "tests/stand_in_gpu/cuda/memory.hpp"

#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "tests/stand_in_gpu/cuda/counts.hpp"
#include "tests/stand_in_gpu/cuda/devices.hpp"
#include "tests/stand_in_gpu/cuda/streams.hpp"
#include "tests/stand_in_gpu/settings.hpp"

namespace panpipe::stand_in {
namespace {

// Unwritten memory reads as not a number, in every floating-point type.
constexpr int kUnwritten = 0xFF;
// As pages. Memory of devices is mapped in pages too; CUDA's is aligned to at least 256 bytes (CUDA C++ Programming Guide, device
// memory accesses).
constexpr std::size_t kHostAlignment = 4096;

// What a process holds on each of its devices before it allocates anything.
std::size_t context_memory() { return static_cast<std::size_t>(number_setting("STAND_IN_CONTEXT_MIB", 0)) << 20; }

struct Block {
  std::size_t size;
  int device;  // -1: pinned memory of the host
};

struct Memory {
  std::mutex lock;
  std::map<const char*, Block> blocks;
  std::vector<std::size_t> used = std::vector<std::size_t>(static_cast<std::size_t>(device_count()), context_memory());

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

bool take_memory(int device, std::size_t size) {
  const std::lock_guard hold(memory().lock);
  std::size_t& used = memory().used.at(static_cast<std::size_t>(device));
  if (used + size > device_memory()) return false;
  used += size;
  return true;
}
void give_memory_back(int device, std::size_t size) {
  const std::lock_guard hold(memory().lock);
  memory().used.at(static_cast<std::size_t>(device)) -= size;
}

// Addresses ascend, as CUDA's do until memory is given back: PyTorch's allocator takes the lowest of equal blocks. Where they are
// in use, the system chooses others.
void* reserve_addresses(std::size_t size) {
  constexpr std::size_t kFirst = std::size_t{1} << 44, kLast = std::size_t{1} << 46, kPage = std::size_t{2} << 20;
  static std::atomic<std::size_t> next{kFirst};
  const std::size_t wanted = next.fetch_add((size + kPage - 1) / kPage * kPage + kPage);
  if (wanted > kLast) next = kFirst;
  void* address =
      mmap(reinterpret_cast<void*>(wanted), size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return address == MAP_FAILED ? nullptr : address;
}
void release_addresses(void* address, std::size_t size) { munmap(address, size); }

void add_device_memory(const void* address, std::size_t size, int device) { memory().add(address, {size, device}); }
void remove_device_memory(const void* address) { memory().remove(address); }

}  // namespace panpipe::stand_in

using namespace panpipe::stand_in;

extern "C" {

cudaError_t cudaMalloc(void** address, size_t size) {
  count("cudaMalloc");
  *address = nullptr;
  if (size == 0) return cudaSuccess;
  const int device = current_device();
  if (!take_memory(device, size)) return remember(cudaErrorMemoryAllocation);
  *address = reserve_addresses(size);
  if (!*address) return remember(cudaErrorMemoryAllocation);
  if (computes()) std::memset(*address, kUnwritten, size);
  add_device_memory(*address, size, device);
  return cudaSuccess;
}

// CUDA waits until the device has done everything: it cannot know who still uses the memory.
cudaError_t cudaFree(void* address) {
  if (!address) return cudaSuccess;
  const int device = device_of(address);
  if (device < 0) return remember(cudaErrorInvalidValue);
  count_host_wait("cudaFree");
  wait_for_device(device);
  std::size_t size = 0;
  {
    const std::lock_guard hold(memory().lock);
    size = memory().find(address)->size;
  }
  remove_device_memory(address);
  give_memory_back(device, size);
  release_addresses(address, size);
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
