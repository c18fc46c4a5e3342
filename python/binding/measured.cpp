// validate and fit: what measured runs say.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <map>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "base/files/file_hash.hpp"
#include "python/binding/bindings.hpp"
#include "validation/fit/fit.hpp"
#include "validation/runs/csv_table.hpp"
#include "validation/runs/run_cluster.hpp"
#include "validation/runs/run_evidence.hpp"
#include "validation/runs/run_report.hpp"

namespace panpipe::python {
namespace {

using Texts = std::vector<std::string>;

std::vector<RunRow> rows_of(const Texts& files) {
  std::vector<RunRow> rows;
  for (const std::string& file : files)
    for (RunRow& row : read_runs(file)) rows.push_back(std::move(row));
  return rows;
}

// Document, page, and whether every tolerance is kept.
std::tuple<std::string, std::string, bool> validated(const Texts& files, const Texts& calibrations, const Texts& tolerances,
                                                     int threads) {
  std::vector<RunTolerance> limits;
  for (const std::string& text : tolerances) limits.push_back(parse_run_tolerance(text));
  PredictionOptions options;
  options.calibrations = calibrations;
  options.threads = threads;
  std::vector<RunPrediction> runs = predict(rows_of(files), options);
  judge(runs, shipped_evidence());
  const RunReport report = make_run_report(std::move(runs), limits);
  return {to_json(report), to_page(report, fmt::format("panpipe.validate({})", fmt::join(files, ", "))), report.ok()};
}

struct FitAnswer {
  std::string yaml, table;
  std::map<std::string, std::tuple<double, double, bool>> parameters;  // key -> value, one standard deviation, determined
  std::map<std::string, double> errors;                                // mean, median, worst, bias, before, folds
  int rows = 0, iterations = 0;
  bool converged = false;
  Texts left_out;
};

FitAnswer fitted(const Texts& files, const Texts& devices, const std::string& start_file, FitOptions options) {
  for (const std::string& device : devices)
    if (device_file_of(device).empty()) throw InputError(fmt::format("device {}: there is no data sheet of this device", device));
  Calibration start;
  if (!start_file.empty()) {
    start = load_calibration(start_file, "");
    options.spread = stated_spreads(start_file);
  }
  const FitRows prepared = prepare_rows(rows_of(files), devices, start);
  if (prepared.rows.empty())
    throw InputError(fmt::format("device {}: no row was measured on it and can be predicted", fmt::join(devices, ", ")));
  const Fit result = fit(prepared.rows, start, options);
  FitRecord record;
  record.name = fmt::format("{}", fmt::join(devices, "-"));
  record.command = fmt::format("panpipe.fit({}, device={})", fmt::join(files, ", "), fmt::join(devices, ", "));
  record.devices = devices;
  record.left_out = prepared.left_out;
  for (const std::string& file : files)
    record.files.push_back({std::filesystem::path(file).filename().string(), sha256_of_file(file)});
  FitAnswer answer;
  answer.yaml = to_yaml(result, record);
  answer.table = to_table(result);
  for (const FittedParameter& number : result.parameters)
    answer.parameters[std::string(number.parameter->key)] = {number.value, number.uncertainty, number.determined};
  answer.errors = {{"mean", result.after.mean}, {"median", result.after.median}, {"worst", result.after.worst},
                   {"bias", result.after.bias}, {"before", result.before.mean},  {"folds", result.folds.mean}};
  answer.rows = static_cast<int>(prepared.rows.size());
  answer.iterations = result.iterations;
  answer.converged = result.converged;
  answer.left_out = prepared.left_out;
  return answer;
}

}  // namespace

void bind_measured(nb::module_& module) {
  using Released = nb::call_guard<nb::gil_scoped_release>;
  module.def("validate", &validated, nb::arg("files"), nb::arg("calibrations"), nb::arg("tolerances"), nb::arg("threads"),
             Released());
  nb::class_<FitAnswer>(module, "FitAnswer")
      .def_ro("yaml", &FitAnswer::yaml)
      .def_ro("table", &FitAnswer::table)
      .def_ro("parameters", &FitAnswer::parameters)
      .def_ro("errors", &FitAnswer::errors)
      .def_ro("rows", &FitAnswer::rows)
      .def_ro("iterations", &FitAnswer::iterations)
      .def_ro("converged", &FitAnswer::converged)
      .def_ro("left_out", &FitAnswer::left_out);
  module.def("fit_available", &fit_available);
  module.def(
      "fit",
      [](const Texts& files, const Texts& devices, const std::string& start, const Texts& only, int folds, int iterations) {
        FitOptions options;
        options.only = only;
        options.folds = folds;
        options.iterations = iterations;
        return fitted(files, devices, start, options);
      },
      nb::arg("files"), nb::arg("devices"), nb::arg("start"), nb::arg("only"), nb::arg("folds"), nb::arg("iterations"),
      Released());
}

}  // namespace panpipe::python
