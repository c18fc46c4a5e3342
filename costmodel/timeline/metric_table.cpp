#include "costmodel/timeline/metric_table.hpp"

#include <algorithm>
#include <type_traits>

#include "base/error.hpp"
#include "base/text/json_writer.hpp"

namespace panpipe {
namespace {

template <auto kMember>
double of_step(const Metrics& metrics) {
  return static_cast<double>(metrics.*kMember);
}

template <auto kMember>
double of_device(const DeviceMetrics& row) {
  return static_cast<double>(row.*kMember);
}

template <auto kMember>
void set_of_device(DeviceMetrics& row, double value) {
  row.*kMember = static_cast<std::remove_reference_t<decltype(row.*kMember)>>(value);
}

template <auto kStep>
constexpr Metric step_metric(std::string_view name, MetricUnit unit, MetricIn in = MetricIn::EveryResult) {
  return {name, unit, of_step<kStep>, nullptr, nullptr, in};
}

template <auto kStep, auto kDevice>
constexpr Metric device_metric(std::string_view name, MetricUnit unit) {
  return {name, unit, of_step<kStep>, of_device<kDevice>, set_of_device<kDevice>, MetricIn::EveryResult};
}

// Of the measured steps, relative to their median.
double spread(const Metrics& metrics) {
  return metrics.step_time_s > 0 ? (metrics.step_time_max_s - metrics.step_time_min_s) / metrics.step_time_s : 0;
}

}  // namespace

const std::vector<Metric>& metric_table() {
  using enum MetricUnit;
  static const std::vector<Metric> table = {
      device_metric<&Metrics::step_time_s, &DeviceMetrics::step_time_s>("step_time_s", Second),
      device_metric<&Metrics::compute_s, &DeviceMetrics::compute_s>("compute_s", Second),
      device_metric<&Metrics::exposed_communication_s, &DeviceMetrics::exposed_communication_s>("exposed_communication_s",
                                                                                                Second),
      device_metric<&Metrics::bubble_step, &DeviceMetrics::bubble_step>("bubble_step", Share),
      device_metric<&Metrics::bubble_span, &DeviceMetrics::bubble_span>("bubble_span", Share),
      device_metric<&Metrics::peak_memory_bytes, &DeviceMetrics::peak_memory_bytes>("peak_memory_bytes", Byte),
      device_metric<&Metrics::memory_limit_bytes, &DeviceMetrics::memory_limit_bytes>("memory_limit_bytes", Byte),
      step_metric<&Metrics::memory_share>("memory_share", Share, MetricIn::NoResult),
      device_metric<&Metrics::fits, &DeviceMetrics::fits>("fits", Truth),
      step_metric<&Metrics::parameters>("parameters", Count),
      step_metric<&Metrics::model_flops>("model_flops", Flop),
      step_metric<&Metrics::mfu>("mfu", Share),
      step_metric<&Metrics::samples_per_s>("samples_per_s", PerSecond),
      step_metric<&Metrics::step_time_p10_s>("step_time_p10_s", Second, MetricIn::Predictions),
      step_metric<&Metrics::step_time_p90_s>("step_time_p90_s", Second, MetricIn::Predictions),
      step_metric<&Metrics::contention_s>("contention_s", Second, MetricIn::Simulations),
      step_metric<&Metrics::step_time_min_s>("step_time_min_s", Second, MetricIn::Measurements),
      step_metric<&Metrics::step_time_max_s>("step_time_max_s", Second, MetricIn::Measurements),
      {"step_time_spread", Share, spread, nullptr, nullptr, MetricIn::Measurements}};
  return table;
}

bool Metric::is_in_result_of(TimelineKind kind) const {
  switch (in) {
    case MetricIn::EveryResult:
      return true;
    case MetricIn::Predictions:
      return kind != TimelineKind::Measured;
    case MetricIn::Simulations:
      return kind == TimelineKind::Simulated;
    case MetricIn::Measurements:
      return kind == TimelineKind::Measured;
    case MetricIn::NoResult:
      return false;
  }
  return false;
}

const Metric* find_metric(std::string_view name) {
  const std::vector<Metric>& table = metric_table();
  const auto found = std::find_if(table.begin(), table.end(), [&](const Metric& metric) { return metric.name == name; });
  return found == table.end() ? nullptr : &*found;
}

std::vector<std::pair<std::string, double>> figures_of(const Metrics& metrics, std::initializer_list<std::string_view> names) {
  std::vector<std::pair<std::string, double>> figures;
  for (const std::string_view name : names) {
    const Metric* metric = find_metric(name);
    PANPIPE_CHECK(metric != nullptr, "a metric of the table");
    figures.emplace_back(name, metric->of_step(metrics));
  }
  return figures;
}

void write_metric(JsonWriter& out, std::string_view name, double value) {
  const Metric* metric = find_metric(name);
  if (metric && metric->unit == MetricUnit::Truth)
    out.field(name, value != 0);
  else if (name.ends_with("_bytes") || (metric && metric->unit == MetricUnit::Count))
    out.field(name, static_cast<std::int64_t>(value));
  else
    out.field(name, value);
}

}  // namespace panpipe
