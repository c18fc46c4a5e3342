// A training log: who trained, how long steps took in the steady state, what was left out, and how the job was stated.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jobs/job_options.hpp"
#include "jobs/log/log_lines.hpp"
#include "jobs/log/run_log.hpp"

namespace panpipe::jobs {

struct TrainingLog {
  std::string file;     // as named in messages
  std::string trainer;  // "megatron-core"
  std::string title;    // "Megatron-LM"
  LoggedRun run;        // the answer
  long long run_number = 1, runs = 1;
  std::vector<RunSummary> summaries;        // of all runs, or of the first kMostRuns
  std::vector<std::string> other_trainers;  // with steps in the same log, by name
};

// `run`: from 1; 0: the last one with a measured step. `known`: of the job, for what the log does not state. Throws InputError
// for a file that cannot be read, for one that is packed or no log of a known trainer, and for a run that does not exist.
TrainingLog read_training_log(const std::string& file, int run = 0, const JobSize& known = {});
TrainingLog read_training_log(const LogLines::Source& source, const std::string& name, int run = 0, const JobSize& known = {});

// Throws InputError with the command that unpacks it where a file begins as packed ones do, or as UTF-16.
void refuse_packed(std::string_view front, const std::string& name);

// The job as a scenario, by the importer of the trainer that stated it. Throws InputError if the log states none, and the errors
// of the importer.
ImportedJob import_stated_job(const TrainingLog& log, const JobOptions& options);

}  // namespace panpipe::jobs
