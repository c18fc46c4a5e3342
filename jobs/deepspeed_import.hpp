// DeepSpeed's configuration (ds_config.json) as a scenario. It holds no model: the caller states it.
#pragma once

#include "jobs/job_options.hpp"

namespace panpipe::jobs {

// Throws InputError with places: values that are none, a stage that does not exist, batch sizes that contradict each other.
ImportedJob import_deepspeed(const std::string& text, const std::string& name, const JobOptions& options);

}  // namespace panpipe::jobs
