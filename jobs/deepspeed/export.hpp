// Exports a plan as DeepSpeed's ds_config.json.
#pragma once

#include <vector>

#include "jobs/edit/document_edits.hpp"
#include "jobs/export.hpp"

namespace panpipe::jobs {

// Layers as DeepSpeed's PipelineModule counts them, embedding and norm with head included: the first of each stage, and their
// number.
std::vector<int> deepspeed_parts(const std::vector<int>& layers);
// The three numbers of a batch, with the keys of the file.
std::vector<Setting> deepspeed_batch(const Plan& plan);

ExportedJob export_deepspeed(const ExportRequest& request);

}  // namespace panpipe::jobs
