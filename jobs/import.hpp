// Imports jobs of other trainers as scenarios.
#pragma once

#include <string>

#include "jobs/job_options.hpp"

namespace panpipe::jobs {

// True if a file that may be a scenario is read as a trainer's job: a trainer is named, and the file has no key `panpipe`.
bool is_job(const std::string& file, const std::string& trainer);

// By a trainer's name or alias. Reads the file ("/dev/stdin": standard input). Throws InputError for an unknown trainer, and the
// errors of its importer.
ImportedJob import_job(const std::string& trainer, const std::string& file, const JobOptions& options);

// The options with the folder of the file, in which its script finds others.
JobOptions with_folder_of(const std::string& file, JobOptions options);

// Adds the differences between the job's model and the modelled one to the assumptions. Returns the reason if the scenario does
// not load, else an empty text. A scenario that does not load is still useful, since the job may fit another machine. `output` is
// the file that will hold the scenario; empty: none.
std::string add_assumptions_of_model(ImportedJob& job, const std::string& output);

}  // namespace panpipe::jobs
