// The configuration of Hugging Face Accelerate (`accelerate config`, YAML) as a scenario. It holds neither model nor batch: the
// caller states them.
#pragma once

#include "jobs/job_options.hpp"

namespace panpipe::jobs {

// Throws InputError with places: values that are none, degrees that do not divide the processes.
ImportedJob import_accelerate(const std::string& text, const std::string& name, const JobOptions& options);

}  // namespace panpipe::jobs
