// The options of `panpipe profile`, the same for the command line and for panpipe-exec; and starting it.
#pragma once

#include <string>
#include <vector>

#include "exec/launch/profile_request.hpp"

namespace CLI {
class App;
}

namespace panpipe::exec {

void add_profile_options(CLI::App& app, ProfileRequest& request);

// What CLI11 cannot say. InputError.
void check_profile_options(const ProfileRequest& request);

// Of check_profile_options, to be asked again once the inputs are known: none of them is overwritten.
void check_profile_outputs(const ProfileRequest& request);

// The words that add_profile_options() reads back as this request.
std::vector<std::string> to_arguments(const ProfileRequest& request);

// Measures and returns the exit code: one process per rank, or for the transport local one in all. MachineError in words where
// this build has no executor.
int launch_profile(ProfileRequest request);

}  // namespace panpipe::exec
