#include "jobs/import.hpp"

#include <filesystem>

#include "base/error.hpp"
#include "base/input/source_text.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "costmodel/workload/assumptions.hpp"
#include "jobs/trainer_jobs.hpp"

namespace panpipe::jobs {

ImportedJob import_job(const std::string& trainer, const std::string& file, const JobOptions& options) {
  const Importer& importer = importer_named(trainer);
  if (file == "/dev/stdin") return importer.read(read_text_file(file), "standard input", options);
  return importer.read(read_text_file(file), file, with_folder_of(file, options));
}

JobOptions with_folder_of(const std::string& file, JobOptions options) {
  options.script.folder = std::filesystem::absolute(file).parent_path().string();
  return options;
}

std::string add_assumptions_of_model(ImportedJob& job, const std::string& output) {
  const std::string folder = output.empty() ? "." : std::filesystem::absolute(output).parent_path().string();
  try {
    const Scenario scenario = parse_scenario(scenario_text(job), output.empty() ? "the scenario" : output, folder);
    for (const std::string& assumption : assumptions_of(scenario.workload)) job.assumptions.push_back(assumption + ".");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace panpipe::jobs
