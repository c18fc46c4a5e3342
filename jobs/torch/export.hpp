// Exports a plan as a script for torch.distributed.pipelining.
#pragma once

#include "jobs/export.hpp"

namespace panpipe::jobs {

ExportedJob export_torch(const ExportRequest& request);

}  // namespace panpipe::jobs
