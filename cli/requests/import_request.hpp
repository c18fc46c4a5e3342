// What `panpipe import` and panpipe.import_job() are asked: a job of another trainer as a scenario.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "jobs/job_options.hpp"

namespace panpipe::cli {

struct ImportRequest {
  std::string trainer;  // "megatron", "deepspeed", "accelerate", "nanotron", "torchtitan"
  std::string file;     // of its arguments or configuration
  jobs::JobOptions job;
  std::optional<int> vocabulary;       // of megatron: tokens, where the arguments do not state them
  std::vector<std::string> overrides;  // of torchtitan: words behind the file
};

// InputError: no such trainer, or what its importer says.
jobs::ImportedJob import_job(const ImportRequest& request);

// What the model of the job does otherwise stands with the other assumptions. Returns why the scenario does not load, else an
// empty text: it is worth having all the same, as the job may be right for another machine. `output`: the file that it is for;
// empty: none.
std::string add_assumptions_of_model(jobs::ImportedJob& job, const std::string& output);

}  // namespace panpipe::cli
