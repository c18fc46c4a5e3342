// What `python -m panpipe.capture TRAINER` prints: the configuration that a trainer resolved, in the keys of the trainer.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "jobs/job_options.hpp"

namespace panpipe::jobs {

struct CapturedJob {
  std::string trainer;  // "torchtitan"
  std::string release;  // "0.3.0"; "unknown"
  NodePtr configuration;
  std::optional<CapturedModel> model;
  std::optional<int> world;                     // ranks
  std::optional<std::set<std::string>> stated;  // keys that are not at the trainer's default
  std::optional<std::string> words;             // the same as a command line, for trainers whose configuration is one
  std::vector<std::string> remarks;
};

// True for a text that names the schema of captured jobs; it may be damaged.
bool is_captured(const std::string& text);

// Nothing for a text that is no captured job. Throws InputError with the place for one that is damaged or of another form.
std::optional<CapturedJob> captured_job(const std::string& text, const std::string& name);

// Adds what the capture states to the options that the command line leaves open: the model, and the ranks. Throws InputError if
// the job is one of another trainer.
void apply_captured(const CapturedJob& captured, const std::string& trainer, const std::string& name, JobOptions& options);

// The numbers at the front of a release: "0.3.1" of "0.3.1.dev2+cu13"; empty of "unknown".
std::string release_number(const std::string& release);

// The keys of the configuration; those at the trainer's defaults are not reported where they were not read.
JobKeys keys_of(const CapturedJob& captured);

// The keys of a captured job, with its model and ranks in the options; else what `read` makes of the file.
JobKeys captured_keys_or(const std::string& text, const std::string& name, const std::string& trainer, JobOptions& options,
                         const std::function<JobKeys()>& read);

}  // namespace panpipe::jobs
