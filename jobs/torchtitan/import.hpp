// Imports torchtitan's configuration as a scenario: the TOML files of releases until February 2026, when it moved to a registry
// in Python.
#pragma once

#include <string>

#include "jobs/job_options.hpp"

namespace panpipe::jobs {

// Throws InputError with places for invalid TOML, Python files, unknown flavors, and degrees that do not divide the GPUs.
ImportedJob import_torchtitan(const std::string& text, const std::string& name, const JobOptions& options);

}  // namespace panpipe::jobs
