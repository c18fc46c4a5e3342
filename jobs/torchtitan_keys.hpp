// torchtitan's file with what its command line overrides, and the keys that no scenario has. Internal to this folder.
#pragma once

#include <string>
#include <vector>

#include "jobs/job_keys.hpp"

namespace panpipe::jobs {

// "--a.b 2", "--a.b=2", "--a.enable" and "--a.no_enable" behind the file. Throws InputError for words that are none of these.
void override_torchtitan_keys(JobKeys& keys, const std::vector<std::string>& words);

const std::vector<std::string>& torchtitan_keys_not_modelled();
const std::vector<std::string>& torchtitan_keys_without_effect();

}  // namespace panpipe::jobs
