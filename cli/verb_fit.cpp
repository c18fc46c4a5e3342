// panpipe fit: a device calibration from measured runs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "costmodel/base/error.hpp"
#include "costmodel/base/files_write.hpp"
#include "validation/fit/fit.hpp"
#include "validation/runs/run_cluster.hpp"

namespace panpipe::cli {
namespace {

struct Settings {
  std::vector<std::string> files, devices, without;
  std::string output, start;
  FitOptions fit;
};

// The calibration that the device's own file names, or the a-priori values; or the one asked for.
Calibration start_values(const Settings& settings) {
  if (!settings.start.empty())
    return load_calibration(
        std::filesystem::exists(settings.start) ? std::filesystem::absolute(settings.start).string() : settings.start, "");
  return {};
}

std::vector<RunRow> wanted_rows(const Settings& settings) {
  std::vector<RunRow> rows;
  for (const std::string& file : settings.files)
    for (RunRow& row : read_runs(file)) {
      const auto named = [&](const std::string& name) { return name == row.id || name == row.source; };
      if (std::none_of(settings.without.begin(), settings.without.end(), named)) rows.push_back(std::move(row));
    }
  return rows;
}

int run_fit(const Settings& settings) {
  if (!fit_available()) fit({}, {}, {});  // says so
  for (const std::string& device : settings.devices)
    if (device_file_of(device).empty())
      throw InputError(fmt::format("--device {}: there is no data sheet of this device", device));
  const FitRows prepared = prepare_rows(wanted_rows(settings), settings.devices);
  for (const std::string& left_out : prepared.left_out) std::fputs(("panpipe: left out: " + left_out + "\n").c_str(), stderr);
  const Fit result = fit(prepared.rows, start_values(settings), settings.fit);
  print(to_table(result));
  if (settings.output.empty()) return 0;
  const std::string name = std::filesystem::path(settings.output).stem().string();
  write_file(settings.output, to_yaml(result, name, settings.devices), "choose another file with -o");
  std::fputs(("written to " + settings.output + "\n").c_str(), stderr);
  return 0;
}

}  // namespace

void add_fit_verb(CLI::App& sub, std::function<int()>& run) {
  auto settings = std::make_shared<Settings>();
  sub.add_option("RUNS", settings->files, "tables of measured runs (CSV)")->required();
  sub.add_option("--device", settings->devices, "rows of this gpu are fitted (repeatable: one calibration for all)")
      ->required()
      ->type_name("NAME")
      ->allow_extra_args(false);
  sub.add_option("-o", settings->output, "write the calibration into this file")->type_name("FILE");
  sub.add_option("--start", settings->start,
                 "calibration to start from, and to take from what is not fitted (default: a-priori values)")
      ->type_name("FILE");
  sub.add_option("--only", settings->fit.only, "fit these numbers alone")->type_name("KEY,KEY")->delimiter(',');
  sub.add_option("--without", settings->without, "leave out rows of this id or source (repeatable)")
      ->type_name("NAME")
      ->allow_extra_args(false);
  sub.add_option("--folds", settings->fit.folds, "parts of the cross-validation (default 5)")->check(CLI::Range(2, 1000));
  sub.add_option("--iterations", settings->fit.iterations, "at most (default 30)")->check(CLI::Range(1, 1000));
  run = [settings] { return run_fit(*settings); };
}

}  // namespace panpipe::cli
