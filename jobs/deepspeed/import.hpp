// Imports DeepSpeed's configuration (ds_config.json) as a scenario. It contains no model; the caller supplies it.
#pragma once

#include "jobs/job_options.hpp"

namespace panpipe::jobs {

// Throws InputError with places for invalid values, an unknown stage, or contradictory batch sizes.
ImportedJob import_deepspeed(const std::string& text, const std::string& name, const JobOptions& options);

// The same for keys that were read elsewhere.
ImportedJob import_deepspeed_keys(JobKeys keys, const JobOptions& options);

}  // namespace panpipe::jobs
