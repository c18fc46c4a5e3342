// panpipe validate: measured runs, predicted; how far the predictions can be trusted.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "base/files/files_write.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "validation/products/product_table.hpp"
#include "validation/runs/csv_table.hpp"
#include "validation/runs/run_evidence.hpp"
#include "validation/runs/run_report.hpp"

namespace panpipe::cli {
namespace {

constexpr const char* kFolderAdvice = "choose another folder with -o";

// Of a row's scenario, in the folder.
std::string scenario_file(std::string id) {
  for (char& c : id)
    if (c == '/') c = '_';
  return "scenarios/" + id + ".yaml";
}

void check_report_files(const std::vector<RunRow>& rows, const std::string& folder) {
  std::set<std::string> files{"validation.json", "validation.html"};
  for (const RunRow& row : rows) files.insert(scenario_file(row.id));
  check_outputs(folder, {files.begin(), files.end()}, kFolderAdvice);
}

void write_report(const RunReport& report, const std::vector<std::string>& files, const std::string& folder) {
  namespace fs = std::filesystem;
  make_folder((fs::path(folder) / "scenarios").string(), kFolderAdvice);
  const auto write = [&](const std::string& name, const std::string& text) {
    write_file((fs::path(folder) / name).string(), text, kFolderAdvice);
  };
  std::string command = "panpipe validate";
  for (const std::string& file : files) command += " " + file;
  write("validation.json", to_json(report));
  write("validation.html", to_page(report, command));
  for (const RunPrediction& run : report.runs) {
    if (run.predicted()) write(scenario_file(run.row.id), run.scenario);
  }
  std::fputs(("written to " + folder + ": validation.html, validation.json, scenarios/\n").c_str(), stderr);
}

void leave_out(std::vector<RunRow>& rows, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (std::erase_if(rows, [&](const RunRow& row) { return row.source == name || row.id == name; }) == 0)
      throw InputError("--without " + name + ": no row has this id or source");
}

void refuse_beside_products(bool anything) {
  if (anything) throw InputError("a table of matrix products stands alone: with it go --calibration, --all and --json only");
}

}  // namespace

void add_validate_verb(CLI::App& sub, std::function<int()>& run) {
  struct Settings {
    std::vector<std::string> files, tolerances, left_out, without;
    PredictionOptions prediction;
    std::string output, evidence;
    bool json = false, all = false;
  };
  auto options = std::make_shared<Settings>();
  sub.add_option("RUNS", options->files, "tables of measured runs, or of matrix products by shape (CSV)")->required();
  sub.add_option("--calibration", options->prediction.calibrations,
                 "device calibration to use instead of the shipped one (repeatable)")
      ->type_name("FILE")
      ->allow_extra_args(false);
  sub.add_option("--tolerance", options->tolerances,
                 "exit 1 when a figure is worse: mean=5%, zb.mean=2%, pairs_ordered=98% (repeatable)")
      ->type_name("FIGURE=LIMIT")
      ->allow_extra_args(false);
  sub.add_option("--threads", options->prediction.threads, "threads that predict rows (default: all cores)")->type_name("N");
  sub.add_option("-o", options->output, "write validation.json, validation.html and every row's scenario into this folder")
      ->type_name("DIR");
  sub.add_option(
         "--left-out", options->left_out,
         "a table of panpipe fit --left-out: its rows are judged by predictions of fits without their source (repeatable)")
      ->type_name("FILE")
      ->allow_extra_args(false);
  sub.add_option("--without", options->without, "leave out rows of this id or source (repeatable)")
      ->type_name("NAME")
      ->allow_extra_args(false);
  sub.add_option("--evidence", options->evidence,
                 "write what these rows say of how sure predictions are into this file, and judge them by it; "
                 "evidence/steps.json of the data is one")
      ->type_name("FILE");
  sub.add_flag("--all", options->all, "list every row, not only the worst");
  sub.add_flag("--json", options->json, "print a JSON document instead of the table");
  run = [options] {
    constexpr std::size_t kShown = 20;
    std::vector<RunTolerance> tolerances;
    for (const std::string& text : options->tolerances) tolerances.push_back(parse_run_tolerance(text));
    std::vector<RunRow> rows;
    std::vector<ProductRow> products;
    for (const std::string& file : options->files) {
      const CsvTable table = load_csv(file);
      if (holds_products(table))
        for (ProductRow& row : read_products(table)) products.push_back(std::move(row));
      else
        for (RunRow& row : read_runs(table, file)) rows.push_back(std::move(row));
    }
    if (!products.empty()) {
      refuse_beside_products(!rows.empty() || !options->tolerances.empty() || !options->output.empty() ||
                             !options->left_out.empty() || !options->without.empty() || !options->evidence.empty());
      const auto predicted = predict_products(products, options->prediction.calibrations);
      if (options->json)
        print(products_json(predicted));
      else
        show(products_table(predicted, options->all ? 0 : kShown));
      return static_cast<int>(ExitCode::Done);
    }
    leave_out(rows, options->without);
    options->prediction.left_out = read_left_out(options->left_out);
    if (!options->output.empty()) check_report_files(rows, options->output);
    if (!options->evidence.empty()) check_outputs({options->evidence}, kAdvice);
    std::vector<RunPrediction> runs = predict(rows, options->prediction);
    const std::optional<EvidenceTable> own = options->evidence.empty() ? std::nullopt : std::optional(make_evidence(runs));
    judge(runs, own ? *own : shipped_evidence());
    const RunReport report = make_run_report(std::move(runs), tolerances);
    if (options->json)
      print(to_json(report));
    else
      show(to_table(report, options->all ? 0 : kShown));
    if (!options->output.empty()) write_report(report, options->files, options->output);
    if (own) write_file(options->evidence, to_json(*own), kAdvice);
    return static_cast<int>(report.ok() ? ExitCode::Done : ExitCode::CheckFailed);
  };
}

}  // namespace panpipe::cli
