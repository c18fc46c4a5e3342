// `panpipe selftest`: tests this machine, reports faults with a remedy, and writes a report.
#pragma once

#include "cli/selftest/trial.hpp"

namespace panpipe::cli {

// Returns the exit code: 0 if all is right, 1 if something is wrong, 130 after Ctrl-C. Throws InputError, and MachineError if the
// device or the executor is missing.
int selftest(const SelftestRequest& request);

}  // namespace panpipe::cli
