// Implements `panpipe-exec profile`: runs the measuring ranks, as threads of this process or as this process, and writes the
// file.
#pragma once

#include <optional>

#include "exec/launch/profile_request.hpp"
#include "exec/launch/world.hpp"

namespace panpipe::exec {

// Returns the exit code; errors are thrown. `world` is nullopt unless this process was started as one of several.
int execute_profile(const ProfileRequest& request, const std::optional<World>& world);

// Handles Ctrl-C during a profile, from a signal handler. Ends the process with 130 at once, because half a profile is useless.
// While the result is being written, only a second signal does so.
void interrupt_profile() noexcept;

}  // namespace panpipe::exec
