// The common end of a run on all ranks, for the programs around training; training itself only sends, sums and waits.
#pragma once

#include "base/error.hpp"
#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

// Capabilities of every transport in addition to its contract.
class Ending {
 public:
  virtual void leave(Clock::duration deadline, const std::string& what) = 0;
  virtual void refuse(const InputError& error) noexcept = 0;

 protected:
  ~Ending() = default;
};

// The last call of a rank; returns when every rank has called it. A rank that ends before this call counts as lost, one that ends
// after it does not.
void leave(Transport& transport, Clock::duration deadline, const std::string& what);

// Like Transport::abort(), for wrong input: every wait of every rank throws an InputError with the same text.
void refuse(Transport& transport, const InputError& error) noexcept;

}  // namespace panpipe::exec
