// panpipe validate: measured runs, predicted; how far the predictions can be trusted.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <set>

#include "app/validate.hpp"
#include "base/error.hpp"
#include "base/files/files_write.hpp"
#include "cli/option_checks.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"

namespace panpipe::cli {
namespace {

constexpr const char* kFolderAdvice = "choose another folder with -o";

// The file of a row's scenario, in the folder.
std::string scenario_file(std::string id) {
  for (char& c : id)
    if (c == '/') c = '_';
  return "scenarios/" + id + ".yaml";
}

void check_report_files(const std::vector<validation::RunRow>& rows, const std::string& folder) {
  std::set<std::string> files{"validation.json", "validation.html"};
  for (const validation::RunRow& row : rows) files.insert(scenario_file(row.id));
  check_outputs(folder, {files.begin(), files.end()}, kFolderAdvice);
}

void write_report(const validation::RunReport& report, const std::vector<std::string>& files, const std::string& folder) {
  namespace fs = std::filesystem;
  make_folder((fs::path(folder) / "scenarios").string(), kFolderAdvice);
  const auto write = [&](const std::string& name, const std::string& text) {
    write_file((fs::path(folder) / name).string(), text, kFolderAdvice);
  };
  std::string command = "panpipe validate";
  for (const std::string& file : files) command += " " + file;
  write("validation.json", to_json(report));
  write("validation.html", to_page(report, command));
  for (const validation::RunPrediction& run : report.runs) {
    if (run.predicted()) write(scenario_file(run.row.id), run.scenario);
  }
  print_note("written to " + folder + ": validation.html, validation.json, scenarios/\n");
}

}  // namespace

void add_validate_verb(CLI::App& sub, std::function<int()>& run) {
  struct Settings : app::RunsRequest {
    std::string output, evidence_file;
    bool json = false, all = false;
  };
  auto options = std::make_shared<Settings>();
  sub.add_option("RUNS", options->files,
                 "tables of measured runs, or of matrix products by shape (CSV); a folder stands for its runs.csv")
      ->required();
  add_repeatable(sub, "--calibration", options->prediction.calibrations,
                 "device calibration to use instead of the shipped one (repeatable)", "FILE");
  add_repeatable(sub, "--tolerance", options->tolerances,
                 "exit 1 when a figure is worse: mean=5%, zb.mean=2%, pairs_ordered=98% (repeatable)", "FIGURE=LIMIT");
  add_typed(sub, "--threads", options->prediction.threads, "threads that predict rows (default: all cores)", "N");
  add_typed(sub, "-o", options->output, "write validation.json, validation.html and every row's scenario into this folder",
            "DIR");
  add_repeatable(
      sub, "--left-out", options->left_out,
      "a table of panpipe fit --left-out: its rows are judged by predictions of fits without their source (repeatable)", "FILE");
  add_repeatable(sub, "--without", options->without, "leave out rows of this id or source (repeatable)", "NAME");
  add_typed(sub, "--given", options->given,
            "rows that are evidence for the others of their source: the others are predicted with it (ids)", "ID,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  sub.add_flag("--judge", options->judge, "judge predictions and intervals with families of sources left out");
  add_typed(sub, "--learn", options->evidence_file,
            "write what these rows say of how sure predictions are into this file, and judge them by it; "
            "evidence/steps.json of the data is one",
            "FILE");
  sub.add_flag("--all", options->all, "list every row, not only the worst");
  sub.add_flag("--json", options->json, "print a JSON document instead of the table");
  run = [options] {
    constexpr std::size_t kShown = 20;
    options->learn = !options->evidence_file.empty();
    options->alone = options->output.empty();
    const app::RunsAnswer answer = app::answer_runs(*options, [&](const std::vector<validation::RunRow>& rows) {
      if (!options->output.empty()) check_report_files(rows, options->output);
      if (!options->evidence_file.empty()) check_outputs({options->evidence_file}, kAdvice);
    });
    if (!answer.report) {
      options->json ? print(products_json(answer.products)) : show(products_table(answer.products, options->all ? 0 : kShown));
      return static_cast<int>(ExitCode::Done);
    }
    options->json ? print(to_json(*answer.report)) : show(to_table(*answer.report, options->all ? 0 : kShown));
    if (!options->output.empty()) write_report(*answer.report, options->files, options->output);
    if (answer.evidence) write_file(options->evidence_file, to_json(*answer.evidence), kAdvice);
    return static_cast<int>(answer.report->ok() ? ExitCode::Done : ExitCode::CheckFailed);
  };
}

}  // namespace panpipe::cli
