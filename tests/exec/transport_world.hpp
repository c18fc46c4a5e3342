// Runs a function on every rank of a small world, each in a thread of its own, over the transport that is named.
#pragma once

#include <functional>
#include <string>

#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

// An exception of a rank's body is a failure of the test, with the rank's number.
void run_world(const std::string& transport, int size, Clock::duration deadline, const std::function<void(Transport&)>& body);
// Options of one process of a world at a port that is free now.
ProcessOptions process_options(int rank, int size, int port, Clock::duration deadline);
bool gpus_for(int ranks);

}  // namespace panpipe::exec
