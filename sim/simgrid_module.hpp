// SimGrid as a back end. It lives in a shared library beside the program that is loaded on first use, so that only what
// simulates pays for loading it; every simulation runs in a child process, because SimGrid's clock and platform are per
// process and cannot be taken back to the start.
#pragma once

#include <string>

#include "sim/event_loop.hpp"

namespace panpipe::sim {

// Why the module cannot be loaded; empty where it can.
const std::string& why_no_simgrid();

// Throws MachineError when the module cannot be loaded or the child process fails.
EventRecord run_events_in_simgrid(const EventInput& input);

}  // namespace panpipe::sim
