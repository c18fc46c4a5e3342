// The longest allowed silence of a peer, in the clock used by waits.
#pragma once

#include "exec/engine/transport/transport.hpp"
#include "exec/launch/run_request.hpp"

namespace panpipe::exec {

inline Clock::duration deadline_of(const RunRequest& request) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(request.deadline_s));
}

}  // namespace panpipe::exec
