// Measures copies between host memory and a GPU.
#pragma once

namespace panpipe::exec {

// Implements `panpipe-exec copies`: prints a line of JSON per GPU (exec/launch/selftest_parts.hpp). Throws MachineError without a
// GPU.
int execute_copies();

}  // namespace panpipe::exec
