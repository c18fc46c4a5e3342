// panpipe fit: a device calibration from measured runs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>

#include "base/error.hpp"
#include "base/files/file_hash.hpp"
#include "base/files/files_write.hpp"
#include "cli/output.hpp"
#include "cli/stop_on_signal.hpp"
#include "cli/verbs.hpp"
#include "costmodel/cluster/cluster_reader.hpp"
#include "validation/fit/fit.hpp"
#include "validation/fit/profile_fit.hpp"
#include "validation/runs/run_cluster.hpp"

namespace panpipe::cli {
namespace {

struct FitSettings {
  std::vector<std::string> files, devices, without;
  std::string output, start, left_out;
  Precision precision = Precision::Fp32;  // of a profile's operators
  FitOptions fit;
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
  const FitOptions defaults;
  const auto changed = [&](const char* name, auto value, auto otherwise) {
    if (value != otherwise) command += fmt::format(" --{} {}", name, value);
  };
  changed("folds", settings.fit.folds, defaults.folds);
  changed("iterations", settings.fit.iterations, defaults.iterations);
  changed("robust-scale", settings.fit.robust_scale, defaults.robust_scale);
  changed("balance", settings.fit.balance, defaults.balance);
  return command + " -o " + shown_path(settings.output);
}

// A path, or the name of a shipped calibration.
std::string start_file(const FitSettings& settings) {
  namespace fs = std::filesystem;
  const std::string shipped = data_directory() + "/calibrations/" + settings.start + ".yaml";
  return !fs::exists(settings.start) && fs::exists(shipped) ? shipped : fs::absolute(settings.start).string();
}

struct WantedRows {
  std::vector<RunRow> rows;
  std::vector<std::string> left_out;
};

WantedRows wanted_rows(const FitSettings& settings) {
  WantedRows wanted;
  std::vector<bool> used(settings.without.size());
  for (const std::string& file : settings.files)
    for (RunRow& row : read_runs(file)) {
      bool out = false;
      for (std::size_t i = 0; i < settings.without.size(); ++i) {
        const std::string name = settings.without[i].substr(0, settings.without[i].find('='));
        if (name != row.id && name != row.source) continue;
        used[i] = out = true;
        const bool reason = name.size() < settings.without[i].size();
        wanted.left_out.push_back(row.id + ": " + (reason ? settings.without[i].substr(name.size() + 1) : "--without " + name));
        break;
      }
      if (!out) wanted.rows.push_back(std::move(row));
    }
  for (std::size_t i = 0; i < used.size(); ++i)
    if (!used[i]) throw InputError(fmt::format("--without {}: no row has this id or source", settings.without[i]));
  return wanted;
}

// What there is when no row was measured on the devices asked for.
std::string devices_of(const std::vector<RunRow>& rows) {
  std::set<std::string> names;
  for (const RunRow& row : rows)
    if (!row.gpu.empty()) names.insert(row.gpu);
  return names.empty() ? "they name none" : fmt::format("they have {}", fmt::join(names, ", "));
}

void write(const FitSettings& settings, const Fit& result, std::vector<std::string> left_out) {
  FitRecord record;
  record.name = std::filesystem::path(settings.output).stem().string();
  record.command = command_of(settings);
  record.devices = settings.devices;
  record.left_out = std::move(left_out);
  for (const std::string& file : settings.files)
    record.files.push_back({std::filesystem::path(file).filename().string(), sha256_of_file(file)});
  write_file(settings.output, to_yaml(result, record), kAdvice);
  std::fputs(("written to " + settings.output + "\n").c_str(), stderr);
}

bool is_yaml(const std::string& file) {
  const std::string extension = std::filesystem::path(file).extension().string();
  return extension == ".yaml" || extension == ".yml" || extension == ".json";
}

bool is_profile(const std::string& file) { return is_yaml(file) || is_operator_table(file); }

// Profiles and tables of operators, in place of runs: what they say of one device, without a search.
int run_profile_fit(const FitSettings& settings) {
  if (settings.devices.size() != 1) throw InputError("--device: operators were measured on one device; name that one");
  std::vector<TimedOperator> operators;
  std::vector<Profile> profiles;
  for (const std::string& file : settings.files) {
    if (is_yaml(file)) {
      profiles.push_back(load_profile(file));
      continue;
    }
    const std::vector<TimedOperator> more = read_operators(file);
    operators.insert(operators.end(), more.begin(), more.end());
  }
  ReadLog log;
  const DeviceType device = load_device(settings.devices.front(), std::filesystem::current_path().string(), log);
  log.throw_if_errors();
  if (!settings.output.empty()) check_outputs({settings.output}, kAdvice);
  const ProfileFit result = fit_profile(operators, profiles, device, settings.precision);
  show(to_table(result));
  if (settings.output.empty()) return 0;
  const std::string name = std::filesystem::path(settings.output).stem().string();
  write_file(settings.output, to_yaml(result, name, device.name, command_of(settings)), kAdvice);
  std::fputs(("written to " + settings.output + "\n").c_str(), stderr);
  return 0;
}

int run_fit(FitSettings settings) {
  const auto profiles = std::count_if(settings.files.begin(), settings.files.end(), is_profile);
  if (profiles == static_cast<std::ptrdiff_t>(settings.files.size())) return run_profile_fit(settings);
  if (profiles > 0) throw InputError("panpipe fit takes measured runs or profiles of operators, not both at once");
  if (!fit_available()) fit({}, {}, {});  // says so
  for (const std::string& device : settings.devices)
    if (device_file_of(device).empty())
      throw InputError(fmt::format("--device {}: there is no data sheet of this device", device));
  Calibration start;
  if (!settings.start.empty()) {
    start = load_calibration(start_file(settings), "");
    settings.fit.spread = stated_spreads(start_file(settings));
  }
  WantedRows wanted = wanted_rows(settings);
  const FitRows prepared = prepare_rows(wanted.rows, settings.devices, start);
  for (const std::string& left_out : prepared.left_out) std::fputs(("panpipe: left out: " + left_out + "\n").c_str(), stderr);
  if (prepared.rows.empty())
    throw InputError(fmt::format("--device {}: none of the {} rows was measured on it and can be predicted; {}",
                                 fmt::join(settings.devices, ", --device "), wanted.rows.size(), devices_of(wanted.rows)));
  if (!settings.output.empty()) check_outputs({settings.output}, kAdvice);
  if (!settings.left_out.empty()) check_outputs({settings.left_out}, kAdvice);
  const StopOnSignal stop;
  settings.fit.stopped = [] { return stop_requested().load(); };
  settings.fit.progress = [](const FitProgress& progress) {
    std::fputs(fmt::format("panpipe: {}: mean error {:.2f} %\n", progress.doing, 100 * progress.mean_error).c_str(), stderr);
  };
  const Fit result = fit(prepared.rows, start, settings.fit);
  show(to_table(result));
  if (!settings.left_out.empty()) {
    write_file(settings.left_out, left_out_csv(result), kAdvice);
    std::fputs(("written to " + settings.left_out + "\n").c_str(), stderr);
  }
  wanted.left_out.insert(wanted.left_out.end(), prepared.left_out.begin(), prepared.left_out.end());
  if (!settings.output.empty()) write(settings, result, wanted.left_out);
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
  sub.add_option("-o", settings->output, "write the calibration into this file")->type_name("FILE");
  sub.add_option("--left-out", settings->left_out,
                 "write each row's prediction by a fit without its source into this table, for panpipe validate --left-out")
      ->type_name("FILE");
  sub.add_option("--start", settings->start,
                 "start from this calibration, and keep its numbers where none is fitted (default: a-priori values)")
      ->type_name("FILE");
  sub.add_option("--only", settings->fit.only, "fit these numbers alone")->type_name("KEY,KEY")->delimiter(',');
  sub.add_option("--without", settings->without,
                 "leave out rows of this id or source; the reason goes into the file (repeatable)")
      ->type_name("NAME[=WHY]")
      ->allow_extra_args(false);
  sub.add_option("--precision", settings->precision, "precision of a profile's operators (default fp32)")
      ->transform(CLI::CheckedTransformer(std::map<std::string, Precision>{
          {"fp32", Precision::Fp32}, {"tf32", Precision::Tf32}, {"bf16", Precision::Bf16}, {"fp16", Precision::Fp16}}))
      ->type_name("NAME");
  sub.add_option("--folds", settings->fit.folds, "parts of the cross-validation (default 5)")->check(CLI::Range(2, 1000));
  sub.add_option("--iterations", settings->fit.iterations, "most iterations of the fit (default 30)")->check(CLI::Range(1, 1000));
  sub.add_option("--robust-scale", settings->fit.robust_scale,
                 "logarithm of an error beyond which a row counts by its size, not its square (default 0.05)")
      ->check(CLI::Range(0.001, 10.0));
  sub.add_option("--balance", settings->fit.balance,
                 "a row weighs (rows of its source)^-B: 0 all rows alike, 1 all sources alike (default 0.5)")
      ->type_name("B")
      ->check(CLI::Range(0.0, 1.0));
  run = [settings] { return run_fit(*settings); };
}

}  // namespace panpipe::cli
