#include "cli/plan_job.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "base/error.hpp"
#include "base/files/files_write.hpp"
#include "base/option_fault.hpp"
#include "base/text/counted.hpp"
#include "cli/import_jobs.hpp"
#include "cli/option_checks.hpp"
#include "cli/output.hpp"
#include "jobs/import.hpp"
#include "jobs/megatron/export.hpp"
#include "jobs/stated_options.hpp"

namespace panpipe::cli {
namespace {

namespace fs = std::filesystem;

std::string folder_of(const std::string& file) { return file.empty() ? "." : fs::absolute(file).parent_path().string(); }

}  // namespace

void add_planned_job_options(CLI::App& sub, PlannedJob& job) {
  const std::string group = "A trainer's job instead of a scenario, with --for (panpipe import TRAINER)";
  add_typed(sub, "--scenario", job.scenario, "write the job's scenario into this file", "FILE")->group(group);
  add_job_options(sub, job.options, {"cluster", "model", "sequence", "micro", "vocabulary"}, {}, group);
  add_script_options(sub, job.script, group);
}

void refuse_job_options(const PlannedJob& job) {
  std::vector<std::string> given;
  if (!job.scenario.empty()) given.emplace_back("scenario");
  for (const auto& [name, value] : jobs::stated_values(job.options)) given.push_back(name);
  if (!job.script.defines.empty()) given.emplace_back("define");
  if (!job.script.arguments.empty()) given.emplace_back("argument");
  if (!given.empty())
    throw option_fault(given.front(), "this is an option of a trainer's job, and the file is read as a scenario",
                       "name the job's trainer with --for, or change a scenario with --set", code::kConflict);
}

JobScenario scenario_of_job(const std::string& file, const std::string& trainer, const PlannedJob& job) {
  jobs::JobOptions options = job.options;
  refer_from(job.scenario, options);
  read_script_words(job.script, options.script);
  const jobs::ImportedJob imported = jobs::import_job(trainer, file, options);
  const JobScenario scenario{jobs::scenario_text(imported), "the scenario of " + file, folder_of(job.scenario)};
  if (!job.scenario.empty()) {
    check_outputs({job.scenario}, "choose another file with --scenario");
    write_file(job.scenario, scenario.text, "choose another file with --scenario");
  }
  print_note(
      fmt::format("panpipe: {} read from {}, {} assumed, {} not part of a prediction, {} not understood; panpipe import {} {} "
                  "shows them\n",
                  counted(static_cast<long long>(imported.values.size()), "value"), file, imported.assumptions.size(),
                  imported.not_modelled.size(), imported.not_understood.size(), trainer, file));
  return scenario;
}

// The options without which the script cannot be read again, each with a blank before it.
std::string script_words(const ScriptWords& script) {
  std::string words;
  for (const std::string& define : script.defines) words += " --define " + jobs::shell_word(define);
  for (const std::string& argument : script.arguments) words += " --argument " + jobs::shell_word(argument);
  return words;
}

std::string export_note(const std::string& file, const std::string& trainer, const PlannedJob& job, const std::string& plan) {
  if (job.scenario.empty()) return "panpipe: --scenario FILE keeps the job's scenario, with which export takes the plan\n";
  return fmt::format("panpipe: back into the job: panpipe export {} {} --plan {} --base {}{}\n", trainer, job.scenario, plan,
                     file, script_words(job.script));
}

}  // namespace panpipe::cli
