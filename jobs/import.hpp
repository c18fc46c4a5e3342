// Imports jobs of other trainers as scenarios: the trainers, one row each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jobs/job_options.hpp"

namespace panpipe::jobs {

struct Importer {
  std::string_view name;                       // "megatron"
  std::string_view what;                       // "the arguments of a Megatron-LM job"
  std::string_view file;                       // the contents of its file
  std::string_view gpus;                       // origin of the number of GPUs without --gpus
  std::string_view model = {};                 // the part of --model in a job, for help; empty: a job always states its model
  std::string_view notes = {};                 // a last line of help
  bool vocabulary = false, overrides = false;  // uses these options
  ImportedJob (*read)(const std::string& text, const std::string& name, const JobOptions& options) = nullptr;
};
const std::vector<Importer>& importers();

// Reads the file ("/dev/stdin": standard input). Throws InputError for an unknown trainer, and the errors of its importer.
ImportedJob import_job(const std::string& trainer, const std::string& file, const JobOptions& options);

// Adds the differences between the job's model and the modelled one to the assumptions. Returns the reason if the scenario does
// not load, else an empty text. A scenario that does not load is still useful, since the job may fit another machine. `output` is
// the file that will hold the scenario; empty: none.
std::string add_assumptions_of_model(ImportedJob& job, const std::string& output);

}  // namespace panpipe::jobs
