// SimGrid as a back end. It is in a shared library next to the program and is loaded on first use, so only simulations pay for
// loading it. Every simulation runs in a child process, because SimGrid's clock and platform are global to a process and cannot
// be reset.
#pragma once

#include <string>

#include "sim/event_loop.hpp"

namespace panpipe::sim {

// The reason why the module cannot be loaded; empty if it can.
const std::string& why_no_simgrid();

// Throws MachineError if the module cannot be loaded or the child process fails.
EventRecord run_events_in_simgrid(const EventInput& input);

}  // namespace panpipe::sim
