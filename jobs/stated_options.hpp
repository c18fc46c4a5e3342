// What a caller may state of a job, one row each: the options of the command line, Python's arguments and the page's fields.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "jobs/job_options.hpp"

namespace panpipe::jobs {

struct StatedOption {
  const char* name;                        // "sequence"
  std::string JobOptions::*text;           // null: of a number
  std::optional<int> JobOptions::*number;  // from 1
  int most;                                // of a number
  const char *type, *meaning;              // of the value, and of the option, for help
};
std::span<const StatedOption> stated_options();

// Those that are stated, as name and value.
std::vector<std::pair<std::string, std::string>> stated_values(const JobOptions& options);

}  // namespace panpipe::jobs
