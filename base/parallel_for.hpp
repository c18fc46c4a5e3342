// A loop over several threads, for work whose parts do not know each other; each thread may keep what it needs again.
#pragma once

#include <cstddef>
#include <functional>

namespace panpipe {

// How many threads parallel_for uses: `threads` (0: as many as the machine has), at least one, at most one a part.
std::size_t workers_for(std::size_t count, int threads);

// Calls body(part, worker) for every part below `count`, each once; worker < workers_for(count, threads). Worker 0 is the
// caller's thread. The first part's exception (by number, not by time) is thrown when all have ended. No part begins once the
// caller's work is taken back (base/stop.hpp): then Stopped is thrown.
void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t part, std::size_t worker)>& body);

}  // namespace panpipe
