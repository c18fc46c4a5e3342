// Runs a loop on several threads. Its parts must be independent; each worker may reuse its own scratch data.
#pragma once

#include <cstddef>
#include <functional>

namespace panpipe {

// The number of threads that parallel_for uses: `threads` (0 = all of the machine), but at least one and at most one per part.
std::size_t workers_for(std::size_t count, int threads);

// Calls body(part, worker) once for every part below `count`; worker < workers_for(count, threads). Worker 0 is the caller's
// thread. If parts throw, the exception of the lowest-numbered part is thrown after all have ended. No part begins once the
// caller's work is stopped (base/stop.hpp): then Stopped is thrown.
void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t part, std::size_t worker)>& body);

}  // namespace panpipe
