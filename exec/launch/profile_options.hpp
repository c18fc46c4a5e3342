// The options of `panpipe profile`, shared by the command line and panpipe-exec; and its start.
#pragma once

#include <string>
#include <vector>

#include "exec/launch/profile_request.hpp"

namespace CLI {
class App;
}

namespace panpipe::exec {

void add_profile_options(CLI::App& app, ProfileRequest& request);

// Checks beyond CLI11's. Throws InputError.
void check_profile_options(const ProfileRequest& request);

// The part of check_profile_options to repeat once the inputs are known: no output may overwrite an input.
void check_profile_outputs(const ProfileRequest& request);

// Arguments that add_profile_options() parses back to this request.
std::vector<std::string> to_arguments(const ProfileRequest& request);

// Measures and returns the exit code. Starts one process per rank, or one in total for the transport local. Throws MachineError
// with an explanation if this build has no executor.
int launch_profile(ProfileRequest request);

}  // namespace panpipe::exec
