// Memory of the device a rank computes on: on a CPU the rank's own account, on an accelerator what the device's allocator counts,
// through LibTorch's device-neutral interface. The allocator counts for the whole device: ranks that share one (threads of one
// process) are counted together.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "exec/engine/measure/memory_account.hpp"

namespace panpipe::exec {

class DeviceMemory {
 public:
  enum class Count {
    Allocated,  // blocks as the allocator rounds them: what a run takes
    Requested,  // bytes that tensors asked for: what a unit takes, whatever the allocator
  };
  // `account` is this rank's and must outlive this; it counts where the device is a CPU. MachineError where the device's
  // allocator keeps no count.
  DeviceMemory(c10::Device device, MemoryAccount& account, Count count);

  std::int64_t live() const;
  // A stretch of work begins: the peak starts at what is live. Changes are kept on a CPU only (`samples` of them).
  void begin(std::size_t samples);
  MemoryAccount::Trace end();

 private:
  c10::Device device_;
  MemoryAccount& account_;
  Count count_;
  std::int64_t before_ = 0;
};

// Bytes of the device's memory that are free now; 0 where its allocator does not say.
std::int64_t free_memory(c10::Device device);

}  // namespace panpipe::exec
