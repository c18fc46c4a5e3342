#include "python/binding/bindings.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <utility>

#include "app/predict.hpp"
#include "cli/build_info.hpp"
#include "costmodel/timeline/memory_room.hpp"
#include "costmodel/timeline/metric_table.hpp"
#include "python/binding/arrow.hpp"
#include "python/binding/interruptible.hpp"
#include "python/binding/scenario_cache.hpp"
#include "sim/simulate.hpp"

namespace panpipe::python {
namespace {

using Overrides = std::vector<std::string>;
using Clock = app::PredictedStep::Clock;

struct PythonStep : app::PredictedStep {
  double engine_s;  // that the estimate itself took

  template <class... Parts>
  explicit PythonStep(double seconds, Parts&&... parts) : PredictedStep(std::forward<Parts>(parts)...), engine_s(seconds) {}
};

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

std::shared_ptr<PythonStep> estimated(nb::object scenario, const Overrides& overrides, const std::string& plan) {
  const ScenarioInput input(std::move(scenario));
  const nb::gil_scoped_release no_gil;
  const auto begin = Clock::now();
  const auto planned = cached_scenario(input, overrides, plan);
  const auto engine = Clock::now();
  EstimatedStep step = estimated_step(planned->graph, planned->experiment.scenario, planned->plan);
  const double engine_s = std::chrono::duration<double>(Clock::now() - engine).count();
  return std::make_shared<PythonStep>(engine_s, planned, std::move(step), begin);
}

std::shared_ptr<PythonStep> simulated(nb::object scenario, const Overrides& overrides, const std::string& plan,
                                      const std::string& backend, bool merge, bool fold) {
  const ScenarioInput input(std::move(scenario));
  const nb::gil_scoped_release no_gil;
  const auto begin = Clock::now();
  const sim::Options options{sim::backend_named(backend), merge, fold};
  const auto planned = cached_scenario(input, overrides, plan);
  Prediction prediction;
  interruptibly([&](const auto&) { prediction = app::simulate(*planned, options); });
  return std::make_shared<PythonStep>(0.0, planned, std::move(prediction), begin);
}

// path -> (value, origin) of everything that was resolved, once the scenario is planned.
nb::dict checked(nb::object scenario, const Overrides& overrides, const std::string& plan) {
  const ScenarioInput input(std::move(scenario));
  std::shared_ptr<const app::PlannedScenario> kept;
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

// As `metrics` of the result document.
nb::dict metrics_of(const PythonStep& step) {
  nb::dict figures;
  for (const Metric& metric : metric_table())
    if (metric.is_in(step.metrics(), step.kind()))
      figures[nb::str(metric.name.data(), metric.name.size())] = figure(metric, metric.of_step(step.metrics()));
  if (const std::string_view how = fits_how(step.metrics(), step.kind()); !how.empty())
    figures["fits_how"] = nb::str(how.data(), how.size());
  if (step.metrics().run && step.metrics().run->cost) figures["currency"] = step.metrics().run->currency;
  nb::list devices;
  for (const DeviceMetrics& device : step.metrics().per_device) devices.append(device_row(device));
  figures["per_device"] = devices;
  return figures;
}

Table timeline_of(const PythonStep& step) {
  Column device{"device", kInt32}, lane{"lane", kText}, action{"action", kText}, microbatch{"microbatch", kInt32},
      stage{"stage", kInt32}, start{"start_s", kDouble}, end{"end_s", kDouble}, bytes{"bytes", kInt64},
      waiting{"waiting_s", kDouble};
  for (const Span& span : step.timeline().spans) {
    device.add(std::int32_t{span.device});
    lane.add(name_of(span.lane));
    action.add(span.label.empty() ? to_text(span.action) : span.label);
    microbatch.add(std::int32_t{span.action.microbatch});
    stage.add(std::int32_t{span.action.stage});
    start.add(span.start.base());
    end.add(span.end.base());
    bytes.add(std::int64_t{span.bytes.base()});
    waiting.add(span.waiting.base());
  }
  std::vector<Column> columns;
  for (Column* column : {&device, &lane, &action, &microbatch, &stage, &start, &end, &bytes, &waiting})
    columns.push_back(std::move(*column));
  return Table(std::move(columns));
}

}  // namespace

void bind_predictions(nb::module_& module) {
  using Released = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<PythonStep>(module, "PredictedStep")
      .def_prop_ro("kind", [](const PythonStep& step) { return std::string(name_of(step.kind())); })
      .def_prop_ro("step_time_s", [](const PythonStep& step) { return step.metrics().step_time_s; })
      .def_prop_ro("peak_memory_bytes",
                   [](const PythonStep& step) { return static_cast<std::int64_t>(step.metrics().peak_memory_bytes); })
      .def_prop_ro("fits", [](const PythonStep& step) { return step.metrics().fits; })
      .def_prop_ro("mfu", [](const PythonStep& step) { return step.metrics().mfu; })
      .def_ro("engine_s", &PythonStep::engine_s, "Seconds that the estimate itself took; 0 of other predictions.")
      .def("metrics", &metrics_of)
      .def(
          "document", [](const PythonStep& step, bool timeline) { return step.document(cli::libraries(), timeline); }, Released())
      .def("timeline", &timeline_of, Released())
      .def("svg", &PythonStep::svg, Released())
      .def(
          "page", [](const PythonStep& step) { return step.page(cli::libraries()); }, Released())
      .def(
          "text", [](const PythonStep& step) { return step.text({}); }, Released())
      .def("plan_yaml", &PythonStep::plan_yaml, Released())
      .def("scenario_yaml", &PythonStep::scenario_yaml, Released())
      .def("trace", &PythonStep::trace, Released());
  module.def("estimate", &estimated);
  module.def("simulate", &simulated);
  module.def("check", &checked);
  module.def("forget_cached", &clear_cached_scenarios, "Forget the scenarios that were kept from earlier calls.");
}

}  // namespace panpipe::python
