// Imports nanotron's configuration (YAML) as a scenario.
#pragma once

#include "jobs/job_options.hpp"

namespace panpipe::jobs {

// Throws InputError with places for invalid values, missing sections, and degrees that do not divide the GPUs.
ImportedJob import_nanotron(const std::string& text, const std::string& name, const JobOptions& options);

}  // namespace panpipe::jobs
