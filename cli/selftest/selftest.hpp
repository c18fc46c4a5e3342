// `panpipe selftest`: tries this machine, says what is wrong with a remedy, and writes a report.
#pragma once

#include "cli/selftest/trial.hpp"

namespace panpipe::cli {

// Returns the exit code: 0 where all is right, 1 where something is wrong, 130 after Ctrl-C. InputError, and MachineError where
// there is no such device or no executor.
int selftest(const SelftestRequest& request);

}  // namespace panpipe::cli
