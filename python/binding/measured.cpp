// validate and fit: predictions compared with measured runs.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <tuple>
#include <utility>

#include "app/fit.hpp"
#include "app/validate.hpp"
#include "base/error.hpp"
#include "base/stop.hpp"
#include "python/binding/bindings.hpp"
#include "python/binding/interruptible.hpp"

namespace panpipe::python {
namespace {

using Texts = std::vector<std::string>;

// Whether all tolerances are kept; document, page, table, evidence: no page and no evidence of products.
using Validated = std::tuple<bool, std::string, std::string, std::string, std::string>;

Validated validated(const app::RunsRequest& request) {
  app::RunsAnswer found;
  interruptibly([&](const auto&) { found = app::answer_runs(request, {}); });
  if (!found.report) return {true, products_json(found.products), "", products_table(found.products, 0), ""};
  const validation::RunReport& report = *found.report;
  return {report.ok(), to_json(report), to_page(report, fmt::format("panpipe.validate({})", fmt::join(request.files, ", "))),
          to_table(report, 0), found.evidence ? to_json(*found.evidence) : ""};
}

// Fields of panpipe.Fit, in its order.
struct FitAnswer {
  std::string yaml, table;
  std::map<std::string, std::tuple<double, double, bool>> parameters;  // key -> value, one standard deviation, determined
  std::map<std::string, double> errors;                                // mean, median, worst, bias, before, folds
  int rows = 0, iterations = 0;
  bool converged = false;
  Texts left_out;
  std::string left_out_table;
  auto tuple() const {
    return std::tuple(yaml, table, parameters, errors, rows, iterations, converged, left_out, left_out_table);
  }
};

std::string command_of(const app::FitRequest& request) {
  return fmt::format("panpipe.fit({}, device={})", fmt::join(request.files, ", "), fmt::join(request.devices, ", "));
}

std::string name_of(const app::FitRequest& request) { return fmt::format("{}", fmt::join(request.devices, "-")); }

void fit_runs(const app::FitRequest& request, const std::atomic<bool>& halt, FitAnswer& answer) {
  app::PreparedFit prepared = app::prepare_fit(request);
  prepared.options.stopped = [&halt] { return halt.load(); };
  const validation::Fit result = fit(prepared.rows, prepared.start, prepared.options);
  throw_if_stopped();
  const validation::FitRecord record = app::record_of(request, prepared, name_of(request), command_of(request));
  answer.yaml = to_yaml(result, record);
  answer.table = to_table(result);
  answer.left_out_table = left_out_csv(result);
  for (const validation::FittedParameter& number : result.parameters)
    answer.parameters[std::string(number.parameter->key)] = {number.value, number.uncertainty, number.determined};
  answer.errors = {{"mean", result.after.mean}, {"median", result.after.median}, {"worst", result.after.worst},
                   {"bias", result.after.bias}, {"before", result.before.mean},  {"folds", result.folds.mean}};
  answer.rows = static_cast<int>(prepared.rows.size());
  answer.iterations = result.iterations;
  answer.converged = result.converged;
  answer.left_out = record.left_out;
}

FitAnswer fitted(const app::FitRequest& request) {
  FitAnswer answer;
  interruptibly([&](const std::atomic<bool>& halt) {
    if (!app::asks_for_profiles(request)) return fit_runs(request, halt, answer);
    const app::FittedProfile result = app::fit_profiles(request);
    answer.yaml = to_yaml(result.fit, name_of(request), result.device, command_of(request));
    answer.table = to_table(result.fit);
    answer.converged = true;
  });
  return answer;
}

}  // namespace

void bind_measured(nb::module_& module) {
  using Released = nb::call_guard<nb::gil_scoped_release>;
  module.def(
      "validate",
      [](const Texts& files, const Texts& calibrations, const Texts& tolerances, const Texts& left_out, const Texts& without,
         const Texts& given, bool learn, int threads) {
        app::RunsRequest request;
        request.files = files;
        request.tolerances = tolerances;
        request.left_out = left_out;
        request.without = without;
        request.prediction.calibrations = calibrations;
        request.prediction.threads = threads;
        request.given = given;
        request.learn = learn;
        return validated(request);
      },
      Released());
  module.def("fit_available", &validation::fit_available);
  module.def(
      "fit",
      [](const Texts& files, const Texts& devices, const std::string& start, const Texts& only, const Texts& without,
         const std::string& precision, int folds, int iterations, double robust_scale, double balance) {
        app::FitRequest request;
        request.files = files;
        request.devices = devices;
        request.without = without;
        request.start = start;
        request.precision = precision;
        request.fit.only = only;
        request.fit.folds = folds;
        request.fit.iterations = iterations;
        request.fit.robust_scale = robust_scale;
        request.fit.balance = balance;
        return fitted(request).tuple();
      },
      Released());
}

}  // namespace panpipe::python
