// A loop over several threads, for work whose parts do not know each other.
#pragma once

#include <cstddef>
#include <functional>

namespace panpipe {

// Calls body(0) ... body(count - 1), each once, on `threads` threads (0: as many as the machine has). The first part's exception
// (by number, not by time) is thrown when all have ended.
void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)>& body);

}  // namespace panpipe
