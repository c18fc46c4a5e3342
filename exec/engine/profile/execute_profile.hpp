// What `panpipe-exec profile` does: the ranks that measure, as threads of this process or as this process, and the file.
#pragma once

#include <optional>

#include "exec/launch/profile_request.hpp"
#include "exec/launch/world.hpp"

namespace panpipe::exec {

// Returns the exit code; errors are thrown. `world` is nothing when nobody started us as one of several.
int execute_profile(const ProfileRequest& request, const std::optional<World>& world);

// What Ctrl-C does to it, from a signal handler: the process ends with 130 at once, since half a profile is none; but not while
// the result is being written, unless it comes a second time.
void interrupt_profile() noexcept;

}  // namespace panpipe::exec
