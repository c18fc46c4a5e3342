// Ranks as threads of this process.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

// Calls `body` once per transport, each on its own thread, and returns when all have ended. An error in one aborts its transport,
// which ends the others' waits; then the error of the lowest rank is thrown, before those that report the loss of another.
void on_threads(const std::vector<std::unique_ptr<Transport>>& transports, const std::function<void(Transport&)>& body);

}  // namespace panpipe::exec
