// Command-line overrides of torchtitan's file, and its keys without a scenario key. Internal to this folder.
#pragma once

#include <string>
#include <vector>

#include "jobs/job_keys.hpp"

namespace panpipe::jobs {

// Accepts "--a.b 2", "--a.b=2", "--a.enable" and "--a.no_enable" after the file. Throws InputError for other words.
void override_torchtitan_keys(JobKeys& keys, const std::vector<std::string>& words);

}  // namespace panpipe::jobs
