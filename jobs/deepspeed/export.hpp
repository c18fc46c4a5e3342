// Exports a plan as DeepSpeed's ds_config.json.
#pragma once

#include <vector>

#include "jobs/export.hpp"

namespace panpipe::jobs {

// Layers as DeepSpeed's PipelineModule counts them, embedding and norm with head included: the first of each stage, and their
// number.
std::vector<int> deepspeed_parts(const std::vector<int>& layers);

ExportedJob export_deepspeed(const ExportRequest& request);

}  // namespace panpipe::jobs
