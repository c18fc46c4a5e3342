// What must be the same on every rank, as short texts that ranks compare before they train.
#pragma once

#include <vector>

#include "exec/engine/run/run.hpp"

namespace panpipe::exec {

std::vector<Agreement> fingerprints(const PreparedRun& run);

}  // namespace panpipe::exec
