// Imports the configuration of Hugging Face Accelerate (`accelerate config`, YAML) as a scenario. The file contains neither model
// nor batch; the caller supplies them.
#pragma once

#include "jobs/job_options.hpp"

namespace panpipe::jobs {

// Throws InputError with places for invalid values, and for degrees that do not divide the processes.
ImportedJob import_accelerate(const std::string& text, const std::string& name, const JobOptions& options);

}  // namespace panpipe::jobs
