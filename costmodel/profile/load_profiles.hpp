// Combines several profiles: for example units measured on a single device, and links on another machine.
#pragma once

#include <string>
#include <vector>

#include "costmodel/profile/profile.hpp"

namespace panpipe {

// Takes each section (transfers, sums over ranks, optimizer, rates) from the first file that has it, and each unit from the first
// file that knows it. `file` and provenance come from the first file. Throws InputError with the faults of every file.
Profile load_profiles(const std::vector<std::string>& paths);

}  // namespace panpipe
