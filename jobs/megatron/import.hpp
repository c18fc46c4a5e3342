// Imports arguments of Megatron-LM's pretrain_*.py as a scenario.
#pragma once

#include <string>

#include "jobs/job_options.hpp"
#include "jobs/shell/arguments.hpp"

namespace panpipe::jobs {

// `text` is a launch script, or holds the arguments as passed by a shell, Megatron-LM's YAML of MODEL_ARGS, or the arguments that
// a run printed. Throws InputError with places for invalid values and contradictory degrees, one that names all that is not
// known, and one that lists the commands of a script that train differently.
ImportedJob import_megatron(const std::string& text, const std::string& name, const JobOptions& options);
// A captured recipe of Megatron-Bridge. Throws InputError for any other text.
ImportedJob import_nemo(const std::string& text, const std::string& name, const JobOptions& options);
// From arguments that were read already.
ImportedJob import_megatron(Arguments arguments, const JobOptions& options);

}  // namespace panpipe::jobs
