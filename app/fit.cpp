#include "app/fit.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/files/file_hash.hpp"
#include "base/files/installation.hpp"
#include "base/option_fault.hpp"
#include "base/precision.hpp"
#include "costmodel/cluster/cluster_reader.hpp"
#include "validation/runs/run_cluster.hpp"

namespace panpipe::app {
namespace {

// A path, or the name of a shipped calibration.
std::string start_file(const FitRequest& request) {
  namespace fs = std::filesystem;
  const std::string shipped = data_directory() + "/calibrations/" + request.start + ".yaml";
  return !fs::exists(request.start) && fs::exists(shipped) ? shipped : fs::absolute(request.start).string();
}

struct WantedRows {
  std::vector<validation::RunRow> rows;
  std::vector<std::string> left_out;
};

WantedRows wanted_rows(const FitRequest& request) {
  WantedRows wanted;
  std::vector<bool> used(request.without.size());
  for (const std::string& file : request.files)
    for (validation::RunRow& row : validation::read_runs(file)) {
      bool out = false;
      for (std::size_t i = 0; i < request.without.size(); ++i) {
        const std::string name = request.without[i].substr(0, request.without[i].find('='));
        if (name != row.id && name != row.source) continue;
        used[i] = out = true;
        const bool reason = name.size() < request.without[i].size();
        wanted.left_out.push_back(row.id + ": " + (reason ? request.without[i].substr(name.size() + 1) : "--without " + name));
        break;
      }
      if (!out) wanted.rows.push_back(std::move(row));
    }
  for (std::size_t i = 0; i < used.size(); ++i)
    if (!used[i]) throw option_fault("without", fmt::format("no row has the id or source '{}'", request.without[i]));
  return wanted;
}

// The measured devices, for the message that no row is of a requested one.
std::string devices_of(const std::vector<validation::RunRow>& rows) {
  std::set<std::string> names;
  for (const validation::RunRow& row : rows)
    if (!row.gpu.empty()) names.insert(row.gpu);
  return names.empty() ? "they name none" : fmt::format("they have {}", fmt::join(names, ", "));
}

bool is_yaml(const std::string& file) {
  const std::string extension = std::filesystem::path(file).extension().string();
  return extension == ".yaml" || extension == ".yml" || extension == ".json";
}

void check_options(const validation::FitOptions& options) {
  const auto within = [](const char* option, auto value, auto least, auto most) {
    if (!(value >= least && value <= most))
      throw option_fault(option, fmt::format("{} is not from {} to {}", value, least, most), "", code::kOutOfRange);
  };
  within("folds", options.folds, 2, 1000);
  within("iterations", options.iterations, 1, 1000);
  within("robust-scale", options.robust_scale, 0.001, 10.0);
  within("balance", options.balance, 0.0, 1.0);
}

Precision precision_of(const FitRequest& request) {
  const std::vector<std::string> names = {"fp32", "tf32", "bf16", "fp16"};
  if (std::find(names.begin(), names.end(), request.precision) == names.end())
    throw unknown_choice("precision", request.precision, names);
  return find_precision(request.precision).value();
}

bool is_profile(const std::string& file) { return is_yaml(file) || validation::is_operator_table(file); }

}  // namespace

bool asks_for_profiles(const FitRequest& request) {
  check_options(request.fit);
  precision_of(request);
  const auto profiles = std::count_if(request.files.begin(), request.files.end(), is_profile);
  if (profiles == static_cast<std::ptrdiff_t>(request.files.size())) return true;
  if (profiles > 0) throw InputError("measured runs or profiles of operators are fitted, not both at once");
  return false;
}

FittedProfile fit_profiles(const FitRequest& request) {
  if (request.devices.size() != 1) throw option_fault("device", "operators were measured on one device; name that one");
  std::vector<validation::TimedOperator> operators;
  std::vector<Profile> profiles;
  for (const std::string& file : request.files) {
    if (is_yaml(file)) {
      profiles.push_back(load_profile(file));
      continue;
    }
    const std::vector<validation::TimedOperator> more = validation::read_operators(file);
    operators.insert(operators.end(), more.begin(), more.end());
  }
  ReadLog log;
  const DeviceType device = load_device(request.devices.front(), std::filesystem::current_path().string(), log);
  log.throw_if_errors();
  return {validation::fit_profile(operators, profiles, device, precision_of(request)), device.name};
}

PreparedFit prepare_fit(const FitRequest& request) {
  if (!validation::fit_available()) validation::fit({}, {}, {});  // throws with the reason
  for (const std::string& device : request.devices)
    if (validation::device_file_of(device).empty())
      throw option_fault("device", fmt::format("there is no data sheet of '{}'", device), "", code::kUnknownName);
  PreparedFit prepared;
  prepared.options = request.fit;
  if (!request.start.empty()) {
    prepared.start = load_calibration(start_file(request), "");
    prepared.options.cluster_factor = validation::was_fitted(start_file(request));
    prepared.options.spread = validation::stated_spreads(start_file(request));
  }
  WantedRows wanted = wanted_rows(request);
  validation::FitRows made = prepare_rows(wanted.rows, request.devices, prepared.start);
  if (made.rows.empty())
    throw option_fault("device", fmt::format("none of the {} rows was measured on {} and can be predicted; {}",
                                             wanted.rows.size(), fmt::join(request.devices, " or "), devices_of(wanted.rows)));
  prepared.rows = std::move(made.rows);
  prepared.asked_out = std::move(wanted.left_out);
  prepared.not_predicted = std::move(made.left_out);
  return prepared;
}

validation::FitRecord record_of(const FitRequest& request, const PreparedFit& prepared, const std::string& name,
                                const std::string& command) {
  validation::FitRecord record;
  record.name = name;
  record.command = command;
  record.devices = request.devices;
  record.left_out = prepared.asked_out;
  record.left_out.insert(record.left_out.end(), prepared.not_predicted.begin(), prepared.not_predicted.end());
  for (const std::string& file : request.files)
    record.files.push_back({std::filesystem::path(file).filename().string(), sha256_of_file(file)});
  return record;
}

}  // namespace panpipe::app
