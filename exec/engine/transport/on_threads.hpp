// Ranks as threads of this process.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

// Calls `body` once for each transport, on a thread of its own, and returns when all have ended. An error of one aborts its
// transport, which ends the others' waits; the error of the lowest rank is thrown then.
void on_threads(const std::vector<std::unique_ptr<Transport>>& transports, const std::function<void(Transport&)>& body);

}  // namespace panpipe::exec
