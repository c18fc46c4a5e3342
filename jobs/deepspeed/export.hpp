// Exports a plan as DeepSpeed's ds_config.json.
#pragma once

#include "jobs/export.hpp"

namespace panpipe::jobs {

ExportedJob export_deepspeed(const ExportRequest& request);

}  // namespace panpipe::jobs
