// How a run ends for all ranks alike; for the programs around training, which itself only sends, sums and waits.
#pragma once

#include "base/error.hpp"
#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

// What every transport can do besides its contract.
class Ending {
 public:
  virtual void leave(Clock::duration deadline, const std::string& what) = 0;
  virtual void refuse(const InputError& error) noexcept = 0;

 protected:
  ~Ending() = default;
};

// The last call of a rank: returns when every rank has called it. A rank that goes before is lost, one that goes after is not.
void leave(Transport& transport, Clock::duration deadline, const std::string& what);

// Transport::abort() because what was given is wrong: every wait of every rank throws an InputError of the same text.
void refuse(Transport& transport, const InputError& error) noexcept;

}  // namespace panpipe::exec
