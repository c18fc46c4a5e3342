// Documents of further verbs: compare, report, support, list; jobs of other trainers in and out.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <tuple>
#include <utility>
#include <variant>

#include "app/import_log.hpp"
#include "app/lists.hpp"
#include "app/support.hpp"
#include "base/input/yaml_document.hpp"
#include "costmodel/prediction/support.hpp"
#include "jobs/export.hpp"
#include "jobs/import.hpp"
#include "jobs/stated_options.hpp"
#include "python/binding/bindings.hpp"
#include "python/binding/scenario_cache.hpp"
#include "study/compare/compare.hpp"
#include "study/report/report.hpp"

namespace panpipe::python {
namespace {

using Overrides = std::vector<std::string>;
// Arguments for a result: its path; or text of the document, with the texts of scenario.yaml and plan.yaml.
using GivenResult = std::tuple<std::string, std::string, std::string, std::string>;

study::ReportInput report_input(const GivenResult& given) {
  const auto& [path, document, scenario, plan] = given;
  if (document.empty()) return study::read_report_input(path);
  return {present::parse_result(document, path), scenario, plan};
}

std::tuple<std::string, std::string, bool> compared(const GivenResult& a, const GivenResult& b, const Overrides& tolerances,
                                                    bool metrics_only) {
  std::vector<study::Tolerance> limits;
  for (const std::string& text : tolerances) limits.push_back(study::parse_tolerance(text));
  const present::ResultDocument first = report_input(a).result, second = report_input(b).result;
  const study::Comparison comparison = compare(first, second, limits, metrics_only);
  return {to_json(comparison), to_table(comparison), comparison.ok()};
}

std::string reported(const std::vector<GivenResult>& results) {
  std::vector<study::ReportInput> inputs;
  for (const GivenResult& given : results) inputs.push_back(report_input(given));
  return to_report_page(inputs);
}

std::string supported(nb::object scenario, const Overrides& overrides, const std::string& plan) {
  const ScenarioInput input(std::move(scenario));
  const nb::gil_scoped_release no_gil;
  const auto kept = cached_scenario(input, overrides, plan);
  const Prediction prediction = predict(kept->graph, kept->experiment.scenario, kept->plan, idle_links());
  return app::to_json(support_of(kept->experiment.scenario, prediction.traits, shipped_evidence()), prediction.metrics);
}

// What is stated of a job, by the names of jobs::stated_options().
using Stated = std::map<std::string, std::variant<int, std::string>>;

jobs::JobOptions options_of(const Stated& stated) {
  jobs::JobOptions options;
  for (const jobs::StatedOption& row : jobs::stated_options()) {
    const auto found = stated.find(row.name);
    if (found == stated.end()) continue;
    if (row.text != nullptr)
      options.*row.text = std::get<std::string>(found->second);
    else
      options.*row.number = std::get<int>(found->second);
  }
  return options;
}

// The fields of panpipe.ImportedJob: scenario, yaml, assumptions, not_modelled, not_understood, fault.
nb::tuple imported(const std::string& trainer, const std::string& file, const jobs::JobOptions& options) {
  jobs::ImportedJob job;
  std::string fault, yaml;
  NodePtr root;
  {
    const nb::gil_scoped_release no_gil;
    job = jobs::import_job(trainer, file, options);
    fault = jobs::add_assumptions_of_model(job, "");
    yaml = jobs::scenario_text(job);
    root = parse_document(yaml, "scenario", "");
  }
  return nb::make_tuple(to_python(*root), yaml, job.assumptions, job.not_modelled, job.not_understood, fault);
}

// Of panpipe.TrainingLog: document, text, yaml, row.
std::tuple<std::string, std::string, std::string, std::string> imported_log(const app::LogRequest& request) {
  const app::LogAnswer answer = app::import_log(request);
  std::string row;
  try {
    if (answer.planned) row = run_csv(app::row_of(answer));
  } catch (const InputError&) {
    // A model that no columns of a table of runs state: the log is read all the same.
  }
  return {app::to_json(answer), app::to_text(answer, {}), answer.scenario, row};
}

// Of panpipe.ExportedJob: text, schedule_csv, cannot, besides, difference.
using Exported = std::tuple<std::string, std::string, std::vector<std::string>, std::vector<std::string>, std::string>;
Exported exported(const std::string& trainer, nb::object scenario, const Overrides& overrides, const std::string& plan,
                  const std::string& file, const std::string& base, const std::map<std::string, std::string>& define) {
  const ScenarioInput input(std::move(scenario));
  const nb::gil_scoped_release no_gil;
  const auto kept = cached_scenario(input, overrides, plan);
  jobs::ExportRequest request{kept->experiment, kept->plan, input.name(), plan, file, base};
  request.base_options.script.defines = define;
  jobs::ExportedJob job = jobs::export_job(trainer, request);
  return {std::move(job.text), std::move(job.schedule_csv), std::move(job.cannot), std::move(job.besides),
          std::move(job.difference)};
}

}  // namespace

void bind_documents(nb::module_& module) {
  using Released = nb::call_guard<nb::gil_scoped_release>;
  module.def("compare", &compared, Released());
  module.def("report", &reported, Released());
  module.def("support", &supported);
  module.def(
      "shipped",
      [](const std::string& kind) { return kind.empty() ? app::list_kinds_json() : app::to_json(app::list_kind_named(kind)); },
      Released());
  module.def("is_job", &jobs::is_job, Released());
  module.def("import_job",
             [](const std::string& trainer, const std::string& file, const Stated& stated, const Overrides& overrides,
                const std::map<std::string, std::string>& define, const Overrides& arguments) {
               jobs::JobOptions options = options_of(stated);
               options.overrides = overrides;
               options.script.defines = define;
               for (std::size_t i = 0; i < arguments.size(); ++i)
                 options.script.arguments[static_cast<int>(i) + 1] = arguments[i];
               options.script.all_arguments = !arguments.empty();
               return imported(trainer, file, options);
             });
  module.def(
      "import_log",
      [](const std::string& file, const std::string& job, int run, const Stated& stated) {
        return imported_log(
            {.file = file, .scenario = job, .overrides = {}, .job = options_of(stated), .run = run, .output = {}});
      },
      Released());
  module.def("export", &exported);
}

}  // namespace panpipe::python
