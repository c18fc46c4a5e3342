// Exports a plan as a configuration of torchtitan.
#pragma once

#include "jobs/export.hpp"

namespace panpipe::jobs {

ExportedJob export_torchtitan(const ExportRequest& request);

}  // namespace panpipe::jobs
