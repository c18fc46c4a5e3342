// What copies between the host's memory and a GPU's reach.
#pragma once

namespace panpipe::exec {

// What `panpipe-exec copies` does: a line of JSON per GPU (exec/launch/selftest_parts.hpp). MachineError where there is no GPU.
int execute_copies();

}  // namespace panpipe::exec
