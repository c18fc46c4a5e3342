// Counts CPU memory at the allocator: every tensor is charged to the rank whose thread allocated it, and credited when any thread
// frees it. Ranks that are threads of one process have separate accounts.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

class MemoryAccount {
 public:
  struct Sample {
    Clock::time_point at;
    std::int64_t live = 0;  // bytes, after the change
  };
  struct Trace {
    std::int64_t before = 0, peak = 0;  // bytes live at the start; maximum until now
    std::int64_t reserved = 0;          // maximum of the segments that an allocator took for them; the peak where it has none
    std::vector<Sample> samples;        // every change, up to the reserved number
  };

  // Creates the account charged for this thread's allocations during its lifetime. Its memory may be freed later. The first
  // account of the process installs the counting allocator; earlier tensors are not counted.
  MemoryAccount();
  ~MemoryAccount();
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  std::int64_t live() const;
  // Starts a step: the peak begins at the live bytes. `samples`: number of changes to record, without allocation.
  void begin(std::size_t samples);
  Trace end();

 private:
  struct Book;
  friend class CountingAllocator;
  friend void charge_to_this_thread(const at::Tensor& tensor);
  Book* book_;
  Book* outer_;  // this thread's previous account
};

// While it lives, no rank is charged for what this thread allocates: memory of the host where a CPU takes the place of a device.
class UncountedMemory {
 public:
  UncountedMemory();
  ~UncountedMemory();
  UncountedMemory(const UncountedMemory&) = delete;
  UncountedMemory& operator=(const UncountedMemory&) = delete;

 private:
  void* before_;
};

// Moves the charge of a tensor from another rank of this process to this rank. Does nothing for uncounted memory.
void charge_to_this_thread(const at::Tensor& tensor);

}  // namespace panpipe::exec
