// An imported job as JSON: panpipe-import/1.
#pragma once

#include <string>

#include "jobs/job.hpp"

namespace panpipe::jobs {

// trainer, source, values with their origins, the lists, what is not known, and the words of the command that a script starts.
std::string to_json(const ImportedJob& job);

}  // namespace panpipe::jobs
