// Memory of a rank's device: on a CPU the rank's own account, on an accelerator the count of the device's allocator, through
// LibTorch's device-neutral interface. That count is for the whole device, so ranks that share one (threads of one process) are
// counted together.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "exec/engine/measure/memory_account.hpp"

namespace panpipe::exec {

class DeviceMemory {
 public:
  enum class Count {
    Allocated,  // blocks as rounded by the allocator: the memory of a run
    Requested,  // bytes requested by tensors: the memory of a unit, independent of the allocator
  };
  // `account` is this rank's and must outlive the object; it is used if the device is a CPU. Throws MachineError if the device's
  // allocator keeps no count.
  DeviceMemory(c10::Device device, MemoryAccount& account, Count count);

  std::int64_t live() const;
  // Starts a measurement: the peak begins at the live bytes. Only a CPU records changes (`samples` of them).
  void begin(std::size_t samples);
  MemoryAccount::Trace end();

 private:
  c10::Device device_;
  MemoryAccount& account_;
  Count count_;
  std::int64_t before_ = 0;
};

// Bytes of the device's memory: free ones, and all that programs can use; zeros if its allocator does not report them.
struct DeviceBytes {
  std::int64_t free = 0, all = 0;
};
DeviceBytes device_bytes(c10::Device device);

}  // namespace panpipe::exec
