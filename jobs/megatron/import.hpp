// Imports arguments of Megatron-LM's pretrain_*.py as a scenario.
#pragma once

#include <string>

#include "jobs/job_options.hpp"
#include "jobs/shell/arguments.hpp"

namespace panpipe::jobs {

// `text` holds the arguments as passed by a shell, with or without the launcher and the script. Throws InputError with places for
// invalid values, contradictory degrees, and shell variables.
ImportedJob import_megatron(const std::string& text, const std::string& name, const JobOptions& options);
// A captured recipe of Megatron-Bridge. Throws InputError for any other text.
ImportedJob import_nemo(const std::string& text, const std::string& name, const JobOptions& options);
// From arguments that were read already.
ImportedJob import_megatron(Arguments arguments, const JobOptions& options);

}  // namespace panpipe::jobs
