// The ranks of this process: all of a world, as threads, or one, where a launcher started the others.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

// One rank of the world over "gloo" or "nccl".
std::unique_ptr<Transport> make_process_transport(const std::string& name, const World& world, Clock::duration deadline);

// Calls `body` for each: on `ranks` threads without a world. An error in one aborts its transport, which ends the others' waits.
// Returns when all ranks of the world have come to `end`.
void run_ranks_here(const std::string& transport, const std::optional<World>& world, int ranks, Clock::duration deadline,
                    const std::string& end, const std::function<void(Transport&)>& body);

}  // namespace panpipe::exec
