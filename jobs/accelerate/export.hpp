// Exports a plan as the file that `accelerate launch --config_file` takes.
#pragma once

#include "jobs/export.hpp"

namespace panpipe::jobs {

ExportedJob export_accelerate(const ExportRequest& request);

}  // namespace panpipe::jobs
