// What panpipe-exec does: a run's ranks, as threads of this process or as this process, from start to result.
#pragma once

#include <optional>

#include "exec/launch/run_request.hpp"
#include "exec/launch/world.hpp"

namespace panpipe::exec {

// Runs the ranks that are this process's: all of them (transport local) or the world's one. Prints result or error; returns the
// exit code. `world` is nothing when nobody started us as one of several.
int execute(const RunRequest& request, const std::optional<World>& world);

// An error for the user: to standard error, marked for the launcher where there is one.
int report(const std::string& text, int exit_code);

}  // namespace panpipe::exec
