#include "cli/import_log.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "app/import_log.hpp"
#include "base/error.hpp"
#include "base/files/files_write.hpp"
#include "cli/import_jobs.hpp"
#include "cli/option_checks.hpp"
#include "cli/output.hpp"

namespace panpipe::cli {
namespace {

constexpr const char* kRowAdvice = "choose another file with --row";

struct LogOptions {
  app::LogRequest request;
  std::string row;
  bool json = false;
};

// Before the log is read, which may take a minute.
void check_log_options(const LogOptions& options) {
  const app::LogRequest& request = options.request;
  if (!request.scenario.empty() && !request.output.empty())
    throw InputError("-o writes the job of the log, and --job states one: give one of them");
  if (!request.scenario.empty() && (!request.job.cluster.empty() || request.job.gpus))
    throw InputError("--cluster and --gpus go with the job of the log: --job SCENARIO states both");
  if (!request.output.empty()) check_outputs({request.output}, kAdvice);
  if (!options.row.empty()) check_outputs({options.row}, kRowAdvice);
}

int import_log(const LogOptions& options) {
  check_log_options(options);
  const app::LogAnswer answer = app::import_log(options.request);
  const std::string& output = options.request.output;
  if (!output.empty() && answer.scenario.empty())
    throw InputError(fmt::format("-o {}: {}", output, answer.open.front().reason), "without -o the measured step is printed");
  const std::string table = options.row.empty() ? "" : app::table_with_row(answer, options.row);
  options.json ? print(app::to_json(answer)) : show(app::to_text(answer, style_of_output()));
  if (!output.empty()) {
    write_file(output, answer.scenario, kAdvice);
    print_note(fmt::format("written to {0}: the job; look at it with panpipe check {0}\n", output));
  }
  if (options.row.empty()) return 0;
  write_file(options.row, table, kRowAdvice);
  print_note(fmt::format("written to {0}: the measured run as a row; predict it with panpipe validate {0}\n", options.row));
  return 0;
}

}  // namespace

void add_job_of_log(CLI::App& sub, app::LogRequest& request, const char* scenario) {
  add_typed(sub, scenario, request.scenario, "the job, where the log does not state it", "SCENARIO");
  add_job_options(sub, request.job, {"cluster", "gpus", "model", "sequence", "vocabulary"},
                  {{"cluster", "cluster file: the machine, which logs do not state"}});
  add_number(sub, "--run", request.run, "number of the run, in a log of several (default: the last one)", 1, 1 << 20);
}

void add_log_import(CLI::App& sub, std::function<int()>& run) {
  auto options = std::make_shared<LogOptions>();
  app::LogRequest& request = options->request;
  CLI::App* log = sub.add_subcommand("log", "read the measured step out of a training log, beside a prediction of its job");
  log->add_option("FILE", request.file, "what the trainer printed; - for standard input")->required();
  add_typed(*log, "-o", request.output, "scenario to write: the job that the log states", "SCENARIO");
  add_typed(*log, "--row", options->row, "table of runs to add the measured run to (made if it does not exist)", "RUNS.csv");
  add_job_of_log(*log, request, "--job");
  log->add_flag("--json", options->json, "print a JSON document instead of the table");
  log->callback([options, &run] {
    run = [options] {
      refer_from(options->request.output, options->request.job);
      return import_log(*options);
    };
  });
}

}  // namespace panpipe::cli
