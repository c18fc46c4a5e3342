// Exports a plan as a file of TrainingArguments.
#pragma once

#include "jobs/export.hpp"

namespace panpipe::jobs {

ExportedJob export_huggingface(const ExportRequest& request);

}  // namespace panpipe::jobs
