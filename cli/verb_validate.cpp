// panpipe validate: measured runs, predicted; how far the predictions can be trusted.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "costmodel/base/error.hpp"
#include "validation/runs/run_report.hpp"

namespace panpipe::cli {

void add_validate_verb(CLI::App& sub, std::function<int()>& run) {
  struct Settings {
    std::vector<std::string> files, tolerances;
    PredictionOptions prediction;
    bool json = false, all = false;
  };
  auto options = std::make_shared<Settings>();
  sub.add_option("RUNS", options->files, "tables of measured runs (CSV)")->required();
  sub.add_option("--calibration", options->prediction.calibrations,
                 "device calibration to use instead of the shipped one (repeatable)")
      ->type_name("FILE")
      ->allow_extra_args(false);
  sub.add_option("--tolerance", options->tolerances,
                 "exit 1 when a figure is worse: mean=5%, zb.mean=2%, pairs_ordered=98% (repeatable)")
      ->type_name("FIGURE=LIMIT")
      ->allow_extra_args(false);
  sub.add_option("--threads", options->prediction.threads, "threads that predict rows (default: all cores)")->type_name("N");
  sub.add_flag("--all", options->all, "list every row, not the worst only");
  sub.add_flag("--json", options->json, "print a JSON document instead of the table");
  run = [options] {
    constexpr std::size_t kShown = 20;
    std::vector<RunTolerance> tolerances;
    for (const std::string& text : options->tolerances) tolerances.push_back(parse_run_tolerance(text));
    std::vector<RunRow> rows;
    for (const std::string& file : options->files)
      for (RunRow& row : read_runs(file)) rows.push_back(std::move(row));
    const RunReport report = make_run_report(predict(rows, options->prediction), tolerances);
    print(options->json ? to_json(report) : to_table(report, options->all ? 0 : kShown));
    return static_cast<int>(report.ok() ? ExitCode::Done : ExitCode::CheckFailed);
  };
}

}  // namespace panpipe::cli
