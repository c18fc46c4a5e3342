// What a plan decides of a configuration of torchtitan, as Python writes it: "parallelism.tensor_parallel_degree", "4". Internal
// to this folder.
#pragma once

#include <vector>

#include "jobs/edit/document_edits.hpp"
#include "jobs/export.hpp"

namespace panpipe::jobs {

std::vector<Setting> torchtitan_plan_settings(const ExportRequest& request);

}  // namespace panpipe::jobs
