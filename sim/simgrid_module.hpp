// SimGrid as a back end. It is in a shared library next to the program and is loaded on first use, so only simulations pay for
// loading it. Every simulation runs in a child process, because SimGrid's clock and platform are global to a process and cannot
// be reset.
#pragma once

#include <string>

#include "sim/event_loop.hpp"

namespace panpipe::sim {

// What to do without it.
inline constexpr const char* kWithoutSimgrid =
    "\nhelp: the backend flow simulates with the own flow solver; SimGrid needs libsimgrid-dev and a build with PANPIPE_SIM=ON";

// The reason why the module cannot be loaded; empty if it can.
const std::string& why_no_simgrid();

// Throws MachineError if the module cannot be loaded or the child process fails.
EventRecord run_events_in_simgrid(const EventInput& input);

}  // namespace panpipe::sim
