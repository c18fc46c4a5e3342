// Imports the arguments of Hugging Face's Trainer as a scenario: captured ones, or a file of arguments.
#pragma once

#include "jobs/job_options.hpp"

namespace panpipe::jobs {

// Throws InputError with places for invalid values, and for arguments of another trainer.
ImportedJob import_huggingface(const std::string& text, const std::string& name, const JobOptions& options);

}  // namespace panpipe::jobs
