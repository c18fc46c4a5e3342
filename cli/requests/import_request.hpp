// The request of `panpipe import` and panpipe.import_job(): a job of another trainer as a scenario.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "jobs/job_options.hpp"

namespace panpipe::cli {

struct ImportRequest {
  std::string trainer;  // "megatron", "deepspeed", "accelerate", "nanotron", "torchtitan"
  std::string file;     // with its arguments or configuration
  jobs::JobOptions job;
  std::optional<int> vocabulary;       // for megatron: tokens of the tokenizer, if the arguments do not state them
  std::vector<std::string> overrides;  // for torchtitan: words behind the file
};

// Throws InputError for an unknown trainer, and the errors of its importer.
jobs::ImportedJob import_job(const ImportRequest& request);

// Adds the differences between the job's model and the modelled one to the assumptions. Returns the reason if the scenario does
// not load, else an empty text. A scenario that does not load is still useful, since the job may fit another machine. `output` is
// the file that will hold the scenario; empty: none.
std::string add_assumptions_of_model(jobs::ImportedJob& job, const std::string& output);

}  // namespace panpipe::cli
