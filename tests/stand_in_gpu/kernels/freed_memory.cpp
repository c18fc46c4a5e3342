#include "tests/stand_in_gpu/kernels/freed_memory.hpp"

#include <c10/cuda/CUDACachingAllocator.h>

#include <cstring>
#include <mutex>

#include "tests/stand_in_gpu/cuda/work.hpp"

namespace panpipe::stand_in {

void overwrite_freed_memory() {
  using c10::CachingDeviceAllocator::TraceEntry;
  static std::once_flag once;
  std::call_once(once, [] {
    c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker([](const TraceEntry& entry) {
      if (entry.action_ != TraceEntry::FREE_COMPLETED) return;
      enqueue(entry.device_, static_cast<cudaStream_t>(entry.stream_),
              [address = entry.addr_, size = entry.size_] { std::memset(reinterpret_cast<void*>(address), 0xFF, size); });
    });
  });
}

}  // namespace panpipe::stand_in
