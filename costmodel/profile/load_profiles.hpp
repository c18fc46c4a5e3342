// Several profiles as one: units measured on a single device, links on another machine.
#pragma once

#include <string>
#include <vector>

#include "costmodel/profile/profile.hpp"

namespace panpipe {

// Each part (units, transfers, sums over ranks, optimizer, rates) is taken from the first file that has it; units from all, where
// the first that knows a unit counts. `file` names the first; provenance is the first's. Throws InputError, of every file.
Profile load_profiles(const std::vector<std::string>& paths);

}  // namespace panpipe
