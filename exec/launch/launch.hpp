// The command line's side of the executor: starts panpipe-exec. Knows no LibTorch.
#pragma once

#include <string>
#include <vector>

namespace panpipe::exec {

// Runs a scenario for real; the arguments are those of `panpipe run`. Returns the exit code of the run. Throws MachineError in
// words where this build has no executor.
int launch(const std::vector<std::string>& arguments);

}  // namespace panpipe::exec
