#include "tests/stand_in_gpu/kernels/freed_memory.hpp"

#include <c10/cuda/CUDACachingAllocator.h>

#include <cstring>
#include <mutex>
#include <string>

#include "tests/stand_in_gpu/cuda/work.hpp"
#include "tests/stand_in_gpu/settings.hpp"

namespace panpipe::stand_in {

void overwrite_freed_memory() {
  using c10::CachingDeviceAllocator::TraceEntry;
  static std::once_flag once;
  std::call_once(once, [] {
    const std::string when = text_setting("STAND_IN_OVERWRITE", "freed");
    if (when != "freed" && when != "reused") refuse_setting("STAND_IN_OVERWRITE", when, "freed or reused");
    const auto action = when == "freed" ? TraceEntry::FREE_COMPLETED : TraceEntry::ALLOC;
    c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker([action](const TraceEntry& entry) {
      if (entry.action_ != action) return;
      enqueue(entry.device_, static_cast<cudaStream_t>(entry.stream_),
              [address = entry.addr_, size = entry.size_] { std::memset(reinterpret_cast<void*>(address), 0xFF, size); });
    });
  });
}

}  // namespace panpipe::stand_in
