// Memory as the allocator counts it: every tensor of the CPU is charged to the rank whose thread allocated it, and credited when
// it is freed, by whichever thread. Ranks that are threads of one process have an account each.
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
    std::int64_t before = 0, peak = 0;  // bytes live at the start; the most until now
    std::vector<Sample> samples;        // every change, until the reserve was full
  };

  // Makes the account that this thread's allocations are charged to, until the account goes. What it still owns then may be
  // freed later. The first account of the process puts the counting allocator in place; earlier tensors are not counted.
  MemoryAccount();
  ~MemoryAccount();
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  std::int64_t live() const;
  // A step begins: the peak starts at what is live. `samples`: how many changes are kept (no allocation while they are).
  void begin(std::size_t samples);
  Trace end();

 private:
  struct Book;
  friend class CountingAllocator;
  friend void charge_to_this_thread(const at::Tensor& tensor);
  Book* book_;
  Book* outer_;  // of this thread before
};

// A tensor that came from another rank of this process is this rank's from now on. Does nothing to memory that is not counted.
void charge_to_this_thread(const at::Tensor& tensor);

}  // namespace panpipe::exec
