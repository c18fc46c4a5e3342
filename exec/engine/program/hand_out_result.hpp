// Prints the result of a run and writes the requested files. Rank 0 only.
#pragma once

#include "base/files/files_read.hpp"
#include "costmodel/timeline/timeline.hpp"
#include "exec/engine/run/run.hpp"

namespace panpipe::exec {

// Throws MachineError if the output cannot be written.
void present(const PreparedRun& run, const Timeline& timeline, const FilesRead& files, Clock::duration wall);

}  // namespace panpipe::exec
