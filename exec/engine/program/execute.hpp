// Implements panpipe-exec: runs the ranks, as threads of this process or as this process, from start to result.
#pragma once

#include <optional>

#include "exec/launch/run_request.hpp"
#include "exec/launch/world.hpp"

namespace panpipe::exec {

// Runs this process's ranks: all (transport local) or one rank of the world. Prints result or error; returns the exit code.
// `world` is nullopt unless this process was started as one of several.
int execute(const RunRequest& request, const std::optional<World>& world);

// Prints a user error to standard error, marked for the launcher if there is one. Returns the exit code.
int report(const std::string& text, int exit_code);

}  // namespace panpipe::exec
