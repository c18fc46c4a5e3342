#include "python/binding/predictions.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <filesystem>
#include <utility>

#include "base/error.hpp"
#include "base/files/file_hash.hpp"
#include "base/index_ranges.hpp"
#include "base/text/text_style.hpp"
#include "base/version.hpp"
#include "cli/build_info.hpp"
#include "costmodel/timeline/metric_table.hpp"
#include "costmodel/workload/assumptions.hpp"
#include "present/picture/timeline_picture.hpp"
#include "present/result/describe_plan.hpp"
#include "python/binding/interruptible.hpp"
#include "sim/simulate.hpp"
#include "study/report/report.hpp"

namespace panpipe::python {
namespace {

using Overrides = std::vector<std::string>;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// As write_metric() has it in a document.
nb::object figure(const Metric& metric, double value) {
  if (metric.unit == MetricUnit::Truth) return nb::bool_(value != 0);
  if (metric.unit == MetricUnit::Byte) return nb::int_(static_cast<std::int64_t>(value));
  return nb::float_(value);
}

nb::dict device_row(const DeviceMetrics& device) {
  nb::dict row;
  row["device"] = device.device;
  row["rank"] = device.rank;
  for (const Metric& metric : metric_table())
    if (metric.per_device()) row[nb::str(metric.name.data(), metric.name.size())] = figure(metric, metric.of_device(device));
  return row;
}

std::shared_ptr<PredictedStep> estimated(nb::object scenario, const Overrides& overrides, const std::string& plan) {
  const ScenarioInput input(std::move(scenario));
  const nb::gil_scoped_release no_gil;
  const auto begin = Clock::now();
  std::shared_ptr<const CachedScenario> kept = cached_scenario(input, overrides, plan);
  const auto engine = Clock::now();
  EstimatedStep step = estimated_step(kept->graph, kept->experiment.scenario, kept->plan);
  const double engine_s = seconds_since(engine);
  return std::make_shared<PredictedStep>(std::move(kept), std::move(step), seconds_since(begin), engine_s);
}

std::shared_ptr<PredictedStep> simulated(nb::object scenario, const Overrides& overrides, const std::string& plan,
                                         const std::string& backend, bool merge, bool fold) {
  const ScenarioInput input(std::move(scenario));
  const nb::gil_scoped_release no_gil;
  const auto begin = Clock::now();
  const sim::Options options{sim::backend_named(backend), merge, fold};
  std::shared_ptr<const CachedScenario> kept = cached_scenario(input, overrides, plan);
  std::optional<Prediction> prediction;
  interruptibly([&](const auto&) {
    prediction = predict(kept->graph, kept->experiment.scenario, kept->plan,
                         [&](const TaskGraph& graph, const Cluster& cluster) { return sim::simulate(graph, cluster, options); });
  });
  return std::make_shared<PredictedStep>(std::move(kept), std::move(*prediction), seconds_since(begin));
}

// path -> (value, origin) of everything that was resolved, once the scenario is planned.
nb::dict checked(nb::object scenario, const Overrides& overrides, const std::string& plan) {
  const ScenarioInput input(std::move(scenario));
  std::shared_ptr<const CachedScenario> kept;
  std::string text;
  {
    const nb::gil_scoped_release no_gil;
    kept = cached_scenario(input, overrides, plan);
    text = resolved_text(kept->experiment.scenario);
  }
  nb::dict values, origins, made;
  for (const ResolvedValue& value : kept->experiment.scenario.resolved) {
    values[value.path.c_str()] = value.value;
    origins[value.path.c_str()] = value.origin;
  }
  made["values"] = values;
  made["origins"] = origins;
  made["text"] = text;
  made["stages"] = kept->plan.stages.size();
  made["devices"] = kept->plan.devices.size();
  return made;
}

}  // namespace

PredictedStep::PredictedStep(std::shared_ptr<const CachedScenario> kept, EstimatedStep step, double wall_s, double engine_s)
    : kept_(std::move(kept)),
      kind_(TimelineKind::Estimated),
      metrics_(std::move(step.metrics)),
      times_(std::move(step.times)),
      wall_s_(wall_s),
      engine_s_(engine_s) {}

PredictedStep::PredictedStep(std::shared_ptr<const CachedScenario> kept, Prediction prediction, double wall_s)
    : kept_(std::move(kept)),
      kind_(prediction.timeline.kind),
      metrics_(std::move(prediction.metrics)),
      wall_s_(wall_s),
      timeline_(std::move(prediction.timeline)) {}

const Timeline& PredictedStep::timeline() const {
  std::call_once(once_, [&] {
    if (!timeline_) timeline_ = make_timeline(kept_->graph, times_, kind_);
  });
  return *timeline_;
}

nb::dict PredictedStep::metrics_dict() const {
  nb::dict figures;
  for (const Metric& metric : metric_table())
    if (metric.is_in(metrics_, kind_))
      figures[nb::str(metric.name.data(), metric.name.size())] = figure(metric, metric.of_step(metrics_));
  if (metrics_.run && metrics_.run->cost) figures["currency"] = metrics_.run->currency;
  nb::list devices;
  for (const DeviceMetrics& device : metrics_.per_device) devices.append(device_row(device));
  figures["per_device"] = devices;
  return figures;
}

present::ResultPlan PredictedStep::described() const {
  return present::describe_plan(kept_->experiment, kept_->plan, timeline());
}

std::string PredictedStep::document(bool with_timeline) const {
  present::ResultContext context;
  context.version = kVersion;
  context.scenario = kept_->name;
  for (const auto& [path, bytes] : kept_->files) context.hashes.emplace_back(path, sha256_of(bytes));
  context.libraries = cli::libraries();
  context.seed = kept_->experiment.scenario.seed;
  context.unused_devices = unused_indices(kept_->plan.devices, kept_->experiment.scenario.cluster.size());
  context.assumed = assumptions_of(kept_->experiment.scenario.workload);
  context.wall_s = wall_s_;
  return present::to_result_json(timeline(), metrics_, context, described(), with_timeline);
}

Table PredictedStep::timeline_table() const {
  Column device{"device", std::vector<std::int32_t>{}}, lane{"lane", Utf8{}}, action{"action", Utf8{}},
      microbatch{"microbatch", std::vector<std::int32_t>{}}, stage{"stage", std::vector<std::int32_t>{}},
      start{"start_s", std::vector<double>{}}, end{"end_s", std::vector<double>{}}, bytes{"bytes", std::vector<std::int64_t>{}},
      waiting{"waiting_s", std::vector<double>{}};
  const auto add = [](auto& column, auto value) { std::get<std::vector<decltype(value)>>(column.values).push_back(value); };
  for (const Span& span : timeline().spans) {
    add(device, span.device);
    std::get<Utf8>(lane.values).add(name_of(span.lane));
    std::get<Utf8>(action.values).add(span.label.empty() ? to_text(span.action) : span.label);
    add(microbatch, std::int32_t{span.action.microbatch});
    add(stage, std::int32_t{span.action.stage});
    add(start, span.start.base());
    add(end, span.end.base());
    add(bytes, std::int64_t{span.bytes.base()});
    add(waiting, span.waiting.base());
  }
  Columns columns;
  for (Column* column : {&device, &lane, &action, &microbatch, &stage, &start, &end, &bytes, &waiting})
    columns.columns.push_back(std::move(*column));
  return Table(std::move(columns));
}

std::string PredictedStep::svg() const {
  return present::to_svg(present::picture_of(timeline(), std::filesystem::path(kept_->name).stem().string()));
}

std::string PredictedStep::page() const {
  return study::to_report_page({{present::parse_result(document(true), kept_->name), scenario_yaml(), plan_yaml()}});
}

std::string PredictedStep::text() const { return present::result_text(kept_->experiment, timeline(), metrics_, described(), {}); }

std::string PredictedStep::plan_yaml() const {
  return to_yaml(kept_->plan, kept_->experiment.model.units(kept_->experiment.scenario.cluster.devices.front().type));
}

std::string PredictedStep::scenario_yaml() const { return resolved_text(kept_->experiment.scenario); }

std::string PredictedStep::trace() const { return present::to_trace_json(timeline()); }

void bind_predictions(nb::module_& module) {
  using Released = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<PredictedStep>(module, "PredictedStep")
      .def_prop_ro("kind", [](const PredictedStep& step) { return std::string(name_of(step.kind())); })
      .def_prop_ro("step_time_s", [](const PredictedStep& step) { return step.metrics().step_time_s; })
      .def_prop_ro("peak_memory_bytes",
                   [](const PredictedStep& step) { return static_cast<std::int64_t>(step.metrics().peak_memory_bytes); })
      .def_prop_ro("fits", [](const PredictedStep& step) { return step.metrics().fits; })
      .def_prop_ro("mfu", [](const PredictedStep& step) { return step.metrics().mfu; })
      .def_prop_ro("engine_s", &PredictedStep::engine_s, "Seconds that the estimate itself took; 0 of other predictions.")
      .def("metrics", &PredictedStep::metrics_dict)
      .def("document", &PredictedStep::document, nb::arg("timeline"), Released())
      .def("timeline", &PredictedStep::timeline_table, Released())
      .def("svg", &PredictedStep::svg, Released())
      .def("page", &PredictedStep::page, Released())
      .def("text", &PredictedStep::text, Released())
      .def("plan_yaml", &PredictedStep::plan_yaml, Released())
      .def("scenario_yaml", &PredictedStep::scenario_yaml, Released())
      .def("trace", &PredictedStep::trace, Released());
  module.def("estimate", &estimated, nb::arg("scenario"), nb::arg("overrides"), nb::arg("plan"));
  module.def("simulate", &simulated, nb::arg("scenario"), nb::arg("overrides"), nb::arg("plan"), nb::arg("backend"),
             nb::arg("merge"), nb::arg("fold"));
  module.def("check", &checked, nb::arg("scenario"), nb::arg("overrides"), nb::arg("plan"));
  module.def("forget_cached", &clear_cached_scenarios, "Forget the scenarios that were kept from earlier calls.");
}

}  // namespace panpipe::python
