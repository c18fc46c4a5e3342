// panpipe export: a plan in the words of another trainer.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/files/files_write.hpp"
#include "cli/import_jobs.hpp"
#include "cli/option_checks.hpp"
#include "cli/output.hpp"
#include "cli/predict.hpp"
#include "cli/trainer_words.hpp"
#include "cli/verbs.hpp"
#include "jobs/trainer_jobs.hpp"

namespace panpipe::cli {
namespace {

struct ExportOptions : ScenarioOptions {
  std::string output, base;
  ScriptWords script;  // of the base
};

// Settings that the trainer cannot express are reported on standard error too, because few users read the head of a file that
// runs.
void report_export(const jobs::ExportedJob& job) {
  for (const std::string& phrase : job.cannot) print_note(fmt::format("warning: {} cannot express {}\n", job.trainer, phrase));
}

// Of a base: its changes, and the file if one is asked for.
int show_difference(const jobs::ExportedJob& job, const ExportOptions& options) {
  if (!options.output.empty()) write_file(options.output, job.text, kAdvice);
  if (!options.output.empty() && is_written_into(options.output)) return 0;
  print(job.difference);
  for (const std::string& sentence : job.besides) print_note(sentence + "\n");
  if (job.difference.empty()) print_note(fmt::format("{} has this plan: nothing changes\n", options.base));
  if (!options.output.empty()) print_note(fmt::format("written to {}\n", options.output));
  return 0;
}

int run_export(const std::string& trainer, const ExportOptions& options) {
  const Experiment experiment(options.load());
  const Plan plan = experiment.plan(options.plan);
  const bool stream = options.output.empty() || is_written_into(options.output);
  jobs::ExportRequest request{experiment,  plan, options.scenario, options.plan, stream ? std::string() : options.output,
                              options.base};
  read_script_words(options.script, request.base_options.script);
  const jobs::ExportedJob job = jobs::export_job(trainer, request);
  report_export(job);
  if (!options.base.empty()) return show_difference(job, options);
  if (options.output.empty()) {
    print(job.text);
    return 0;
  }
  const std::string order_file = job.schedule_csv.empty() ? "" : jobs::order_file_of(options.output);
  if (!order_file.empty()) {
    check_outputs({options.output, order_file}, kAdvice);
    write_file(order_file, job.schedule_csv, kAdvice);
  }
  write_file(options.output, job.text, kAdvice);
  if (stream) return 0;
  std::string reported =
      fmt::format("written to {}{}\n", options.output, order_file.empty() ? "" : ", the order to " + order_file);
  for (const std::string& sentence : job.besides) reported += sentence + "\n";
  print_note(reported);
  return 0;
}

}  // namespace

void add_export_verb(CLI::App& sub, std::function<int()>& run) {
  sub.require_subcommand(1);
  for (const jobs::TrainerJobs& jobs : jobs::trainer_jobs()) {
    if (jobs.write == nullptr) continue;
    auto options = std::make_shared<ExportOptions>();
    const std::string name(jobs.name);
    CLI::App* of = add_trainer_word(sub, name, "write a plan for {}");
    add_scenario_options(*of, *options);
    add_typed(*of, "--plan", options->plan, "the plan to write (default: the scenario's own)", "FILE");
    if (jobs.edit != nullptr)
      add_typed(*of, "--base", options->base,
                "your own job: what the plan decides is changed in it, and the difference is printed", "FILE");
    if (jobs.edit != nullptr && jobs.importer.script) add_script_options(*of, options->script, "Of a script (--base)");
    add_typed(*of, "-o", options->output, "file to write instead of standard output", "FILE");
    of->callback([options, name, &run] { run = [options, name] { return run_export(name, *options); }; });
  }
}

}  // namespace panpipe::cli
