// The result of a run: printed, and written where it was asked for. Rank 0 only.
#pragma once

#include "base/files/files_read.hpp"
#include "costmodel/timeline/timeline.hpp"
#include "exec/engine/run/run.hpp"

namespace panpipe::exec {

// MachineError when the output cannot be written.
void present(const PreparedRun& run, const Timeline& timeline, const FilesRead& files, Clock::duration wall);

}  // namespace panpipe::exec
