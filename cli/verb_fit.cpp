// panpipe fit: a device calibration from measured runs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "app/fit.hpp"
#include "base/files/files_write.hpp"
#include "cli/option_checks.hpp"
#include "cli/output.hpp"
#include "cli/stop_on_signal.hpp"
#include "cli/verbs.hpp"

namespace panpipe::cli {
namespace {

struct FitSettings : app::FitRequest {
  std::string output, left_out;
};

// As typed; what lies in the folder of reference data is written with that folder's name.
std::string shown_path(const std::string& path) {
  const char* reference = std::getenv("PANPIPE_REFERENCE");
  const std::string folder = reference == nullptr ? "" : std::string(reference) + "/";
  if (folder.size() > 1 && path.rfind(folder, 0) == 0) return "$PANPIPE_REFERENCE/" + path.substr(folder.size());
  return path;
}

std::string command_of(const FitSettings& settings) {
  std::string command = "panpipe fit";
  for (const std::string& file : settings.files) command += " " + shown_path(file);
  for (const std::string& device : settings.devices) command += " --device " + device;
  for (const std::string& name : settings.without)
    command += " --without " + (name.find(' ') == std::string::npos ? name : "'" + name + "'");
  if (!settings.start.empty()) command += " --start " + shown_path(settings.start);
  if (!settings.fit.only.empty()) command += fmt::format(" --only {}", fmt::join(settings.fit.only, ","));
  const validation::FitOptions defaults;
  const auto changed = [&](const char* name, auto value, auto otherwise) {
    if (value != otherwise) command += fmt::format(" --{} {}", name, value);
  };
  changed("folds", settings.fit.folds, defaults.folds);
  changed("iterations", settings.fit.iterations, defaults.iterations);
  changed("robust-scale", settings.fit.robust_scale, defaults.robust_scale);
  changed("balance", settings.fit.balance, defaults.balance);
  return command + " -o " + shown_path(settings.output);
}

// Profiles and tables of operators, in place of runs: they determine the factors of one device without a search.
int run_profile_fit(const FitSettings& settings) {
  if (!settings.output.empty()) check_outputs({settings.output}, kAdvice);
  const app::FittedProfile result = app::fit_profiles(settings);
  show(to_table(result.fit));
  if (settings.output.empty()) return 0;
  const std::string name = std::filesystem::path(settings.output).stem().string();
  write_file(settings.output, to_yaml(result.fit, name, result.device, command_of(settings)), kAdvice);
  print_note("written to " + settings.output + "\n");
  return 0;
}

int run_fit(const FitSettings& settings) {
  if (app::asks_for_profiles(settings)) return run_profile_fit(settings);
  app::PreparedFit prepared = app::prepare_fit(settings);
  for (const std::string& left_out : prepared.not_predicted) print_note("panpipe: left out: " + left_out + "\n");
  if (!settings.output.empty()) check_outputs({settings.output}, kAdvice);
  if (!settings.left_out.empty()) check_outputs({settings.left_out}, kAdvice);
  const StopOnSignal stop;
  prepared.options.stopped = [] { return stop_requested().load(); };
  prepared.options.progress = [](const validation::FitProgress& progress) {
    print_note(fmt::format("panpipe: {}: mean error {:.2f} %\n", progress.doing, 100 * progress.mean_error));
  };
  const validation::Fit result = fit(prepared.rows, prepared.start, prepared.options);
  show(to_table(result));
  if (!settings.left_out.empty()) {
    write_file(settings.left_out, left_out_csv(result), kAdvice);
    print_note("written to " + settings.left_out + "\n");
  }
  if (!settings.output.empty()) {
    const std::string name = std::filesystem::path(settings.output).stem().string();
    write_file(settings.output, to_yaml(result, app::record_of(settings, prepared, name, command_of(settings))), kAdvice);
    print_note("written to " + settings.output + "\n");
  }
  return 0;
}

}  // namespace

void add_fit_verb(CLI::App& sub, std::function<int()>& run) {
  auto settings = std::make_shared<FitSettings>();
  sub.add_option("RUNS", settings->files,
                 "tables of measured runs (CSV); or profiles (YAML) and tables of operators (CSV) of panpipe profile")
      ->required();
  sub.add_option("--device", settings->devices,
                 "rows of this gpu are fitted (repeatable: one calibration for all); with profiles the device's name or file")
      ->required()
      ->type_name("NAME")
      ->allow_extra_args(false);
  add_typed(sub, "-o", settings->output, "write the calibration into this file", "FILE");
  add_typed(sub, "--left-out", settings->left_out,
            "write each row's prediction by a fit without its source into this table, for panpipe validate --left-out", "FILE");
  add_typed(sub, "--start", settings->start,
            "start from this calibration, and keep its numbers where none is fitted (default: a-priori values)", "FILE");
  add_typed(sub, "--only", settings->fit.only, "fit these numbers alone", "KEY,KEY")->delimiter(',');
  add_repeatable(sub, "--without", settings->without,
                 "leave out rows of this id or source; the reason goes into the file (repeatable)", "NAME[=WHY]");
  add_typed(sub, "--precision", settings->precision, "precision of a profile's operators (default fp32)", "fp32|tf32|bf16|fp16");
  sub.add_option("--folds", settings->fit.folds, "parts of the cross-validation, from 2 to 1000 (default 5)");
  sub.add_option("--iterations", settings->fit.iterations, "most iterations of the fit, from 1 to 1000 (default 30)");
  sub.add_option("--robust-scale", settings->fit.robust_scale,
                 "logarithm of an error beyond which a row counts by its size, not its square, from 0.001 to 10 (default 0.05)");
  add_typed(sub, "--balance", settings->fit.balance,
            "a row weighs (rows of its source)^-B: 0 all rows alike, 1 all sources alike (default 0.5)", "B");
  run = [settings] { return run_fit(*settings); };
}

}  // namespace panpipe::cli
