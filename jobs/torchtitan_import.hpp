// Imports torchtitan's configuration as a scenario: the TOML files of releases until February 2026, when it moved to a registry
// in Python.
#pragma once

#include <string>
#include <vector>

#include "jobs/job_options.hpp"

namespace panpipe::jobs {

// `overrides` are the words after the file: "--parallelism.tensor_parallel_degree", "2". Throws InputError with places for
// invalid TOML, Python files, unknown flavors, and degrees that do not divide the GPUs.
ImportedJob import_torchtitan(const std::string& text, const std::string& name, const std::vector<std::string>& overrides,
                              const JobOptions& options);

}  // namespace panpipe::jobs
