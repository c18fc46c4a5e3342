// A trainer's job in place of the scenario of `panpipe plan`.
#pragma once

#include <string>

#include "base/input/yaml_document.hpp"
#include "cli/import_jobs.hpp"
#include "jobs/job_options.hpp"

namespace CLI {
class App;
}

namespace panpipe::cli {

struct PlannedJob {
  jobs::JobOptions options;
  ScriptWords script;
  std::string scenario;  // the file for the job's scenario; empty: not wanted
};

void add_planned_job_options(CLI::App& sub, PlannedJob& job);

// Throws InputError for options of a job that are given with a scenario.
void refuse_job_options(const PlannedJob& job);

// The job's scenario as text. Writes it if a file for it is named, and reports how much of it the import assumed.
struct JobScenario {
  std::string text, name, directory;
  NodePtr document() const { return parse_document(text, name, directory); }
};
JobScenario scenario_of_job(const std::string& file, const std::string& trainer, const PlannedJob& job);

// How a plan of the job comes back into the trainer.
std::string export_note(const std::string& file, const std::string& trainer, const PlannedJob& job, const std::string& plan);

}  // namespace panpipe::cli
