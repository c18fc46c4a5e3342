// Facts that must be equal on every rank, as short texts that ranks compare before training.
#pragma once

#include <vector>

#include "exec/engine/run/run.hpp"

namespace panpipe::exec {

std::vector<Agreement> fingerprints(const PreparedRun& run);

}  // namespace panpipe::exec
