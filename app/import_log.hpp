// What `panpipe import log` and panpipe.import_log() answer: the measured step of a training log, and the prediction of the
// same job.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/predict.hpp"
#include "costmodel/prediction/step_terms.hpp"
#include "jobs/import.hpp"
#include "jobs/log/read_log.hpp"
#include "validation/runs/run_row.hpp"

namespace panpipe::app {

struct LogRequest {
  std::string file;
  std::string scenario;                // of the job; empty: as the log states it
  std::vector<std::string> overrides;  // of the scenario
  jobs::JobOptions job;                // what the log leaves open; without a cluster nothing is predicted
  int run = 0;                         // from 1; 0: the last one with a measured step
  std::string output;                  // file that will hold the scenario; empty: none
};

struct LoggedPrediction {
  Metrics metrics;
  StepTraits traits;
  StepTerms terms;
  double peak_bytes = 0;  // the part that the log prints
};

struct OpenPoint {
  std::string reason;
  std::string option;  // that settles it: "cluster"; empty: none
};

struct LogAnswer {
  jobs::TrainingLog log;
  std::optional<jobs::ImportedJob> job;            // where the log states it, and no scenario was given
  std::string scenario;                            // its text; empty: not known
  std::string scenario_file;                       // that was given, or will hold the text; empty: none
  std::shared_ptr<const PlannedScenario> planned;  // null: see `open`
  std::optional<LoggedPrediction> predicted;
  std::vector<OpenPoint> open;  // why there is no scenario, or no prediction
  // Why the scenario cannot be the log's job, or is not predicted as its trainer runs it (app/log_and_job.hpp); empty: it is.
  std::string other_job, other_trainer;
  std::vector<std::string> contradictions() const;  // those of the two that are not empty
};

// Throws InputError for a log that cannot be read (jobs/log/read_log.hpp), and for a scenario that cannot be loaded.
LogAnswer import_log(const LogRequest& request);

// The run as a row of a table of runs (docs/validate.md) in the folder of `table`. What no columns state, the row names the
// scenario for. Throws InputError if the job or its GPUs are not known, and where such a scenario is no file in that folder.
validation::RunRow row_of(const LogAnswer& answer, const std::string& table = "");

// The contents of the table `file` with the answer's row, whether it exists or not. Throws InputError for a file that is no table
// of runs.
std::string table_with_row(const LogAnswer& answer, const std::string& file);

std::string to_text(const LogAnswer& answer, const TextStyle& style);
std::string to_json(const LogAnswer& answer);  // panpipe-log/1

}  // namespace panpipe::app
