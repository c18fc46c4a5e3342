#include "costmodel/timeline/metric_table.hpp"

#include <algorithm>
#include <type_traits>

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
constexpr Metric step_metric(std::string_view name, MetricUnit unit, MetricSummary summary, MetricIn in = MetricIn::EveryResult,
                             bool (*is_known)(const Metrics&) = nullptr) {
  return {name, unit, of_step<kStep>, nullptr, nullptr, in, is_known, summary};
}

template <auto kStep, auto kDevice>
constexpr Metric device_metric(std::string_view name, MetricUnit unit, MetricSummary summary = MetricSummary::Both) {
  return {name, unit, of_step<kStep>, of_device<kDevice>, set_of_device<kDevice>, MetricIn::EveryResult, nullptr, summary};
}

// A step whose costs were measured where it runs has no interval.
bool has_interval(const Metrics& metrics) { return metrics.step_time_p50_s > 0; }

bool rolls(const Metrics& metrics) { return metrics.period_s > 0; }

double value_of(double value) { return value; }
double value_of(const std::optional<double>& value) { return value.value_or(0); }
bool known(double) { return true; }
bool known(const std::optional<double>& value) { return value.has_value(); }

// Of what a prediction has where the scenario states it: the run, rollouts.
template <auto kPart, auto kMember>
constexpr Metric run_metric(std::string_view name, MetricUnit unit) {
  return {name,
          unit,
          [](const Metrics& metrics) { return metrics.*kPart ? value_of((*(metrics.*kPart)).*kMember) : 0; },
          nullptr,
          nullptr,
          MetricIn::Runs,
          [](const Metrics& metrics) { return metrics.*kPart && known((*(metrics.*kPart)).*kMember); },
          MetricSummary::Both};
}

// Spread of the measured steps, relative to their median.
double spread(const Metrics& metrics) {
  return metrics.step_time_s > 0 ? (metrics.step_time_max_s - metrics.step_time_min_s) / metrics.step_time_s : 0;
}

}  // namespace

const std::vector<Metric>& metric_table() {
  using enum MetricUnit;
  using enum MetricSummary;
  static const std::vector<Metric> table = {
      device_metric<&Metrics::step_time_s, &DeviceMetrics::step_time_s>("step_time_s", Second),
      device_metric<&Metrics::compute_s, &DeviceMetrics::compute_s>("compute_s", Second),
      device_metric<&Metrics::exposed_communication_s, &DeviceMetrics::exposed_communication_s>("exposed_communication_s",
                                                                                                Second),
      device_metric<&Metrics::bubble_step, &DeviceMetrics::bubble_step>("bubble_step", Share),
      device_metric<&Metrics::bubble_span, &DeviceMetrics::bubble_span>("bubble_span", Share),
      device_metric<&Metrics::allocated_memory_bytes, &DeviceMetrics::allocated_memory_bytes>("allocated_memory_bytes", Byte,
                                                                                              Candidate),
      device_metric<&Metrics::reserved_memory_bytes, &DeviceMetrics::reserved_memory_bytes>("reserved_memory_bytes", Byte,
                                                                                            Candidate),
      device_metric<&Metrics::peak_memory_bytes, &DeviceMetrics::peak_memory_bytes>("peak_memory_bytes", Byte),
      device_metric<&Metrics::memory_limit_bytes, &DeviceMetrics::memory_limit_bytes>("memory_limit_bytes", Byte, Candidate),
      step_metric<&Metrics::memory_share>("memory_share", Share, Candidate, MetricIn::NoResult),
      device_metric<&Metrics::fits, &DeviceMetrics::fits>("fits", Truth, Candidate),
      step_metric<&Metrics::parameters>("parameters", Count, None),
      step_metric<&Metrics::model_flops>("model_flops", Flop, Cell),
      step_metric<&Metrics::mfu>("mfu", Share, Both),
      step_metric<&Metrics::samples_per_s>("samples_per_s", PerSecond, Both),
      step_metric<&Metrics::step_time_p10_s>("step_time_p10_s", Second, Both, MetricIn::Predictions, has_interval),
      step_metric<&Metrics::step_time_p50_s>("step_time_p50_s", Second, Both, MetricIn::Predictions, has_interval),
      step_metric<&Metrics::step_time_p90_s>("step_time_p90_s", Second, Both, MetricIn::Predictions, has_interval),
      step_metric<&Metrics::period_s>("period_s", Second, Both, MetricIn::EveryResult, rolls),
      step_metric<&Metrics::first_step_s>("first_step_s", Second, Both, MetricIn::EveryResult, rolls),
      step_metric<&Metrics::staleness>("staleness", Count, Both, MetricIn::EveryResult, rolls),
      step_metric<&Metrics::contention_s>("contention_s", Second, Cell, MetricIn::Simulations),
      step_metric<&Metrics::step_time_min_s>("step_time_min_s", Second, None, MetricIn::Measurements),
      step_metric<&Metrics::step_time_max_s>("step_time_max_s", Second, None, MetricIn::Measurements),
      {"step_time_spread", Share, spread, nullptr, nullptr, MetricIn::Measurements, nullptr},
      run_metric<&Metrics::rl, &RlStep::period_s>("rl_period_s", Second),
      run_metric<&Metrics::rl, &RlStep::rollout_s>("rl_rollout_s", Second),
      run_metric<&Metrics::rl, &RlStep::idle_rollout>("rl_idle_rollout", Share),
      run_metric<&Metrics::rl, &RlStep::idle_training>("rl_idle_training", Share),
      run_metric<&Metrics::run, &RunCost::steps>("run_steps", Count),
      run_metric<&Metrics::run, &RunCost::time_s>("run_time_s", Second),
      run_metric<&Metrics::run, &RunCost::time_p10_s>("run_time_p10_s", Second),
      run_metric<&Metrics::run, &RunCost::time_p90_s>("run_time_p90_s", Second),
      run_metric<&Metrics::run, &RunCost::gpu_hours>("gpu_hours", Hour),
      run_metric<&Metrics::run, &RunCost::goodput>("goodput", Share),
      run_metric<&Metrics::run, &RunCost::checkpoint_s>("checkpoint_s", Second),
      run_metric<&Metrics::run, &RunCost::checkpoint_interval_s>("checkpoint_interval_s", Second),
      run_metric<&Metrics::run, &RunCost::mtbf_s>("mtbf_s", Second),
      run_metric<&Metrics::run, &RunCost::cost>("cost", Money),
      run_metric<&Metrics::run, &RunCost::cost_p10>("cost_p10", Money),
      run_metric<&Metrics::run, &RunCost::cost_p90>("cost_p90", Money),
      run_metric<&Metrics::run, &RunCost::energy_kwh>("energy_kwh", Energy),
      run_metric<&Metrics::run, &RunCost::carbon_kg>("carbon_kg", Mass)};
  return table;
}

bool Metric::is_in_result_of(TimelineKind kind) const {
  const bool measured = kind == TimelineKind::Measured;
  return in == MetricIn::EveryResult || (in == MetricIn::Simulations && kind == TimelineKind::Simulated) ||
         (in == MetricIn::Measurements && measured) || ((in == MetricIn::Predictions || in == MetricIn::Runs) && !measured);
}

const Metric* find_metric(std::string_view name) {
  const std::vector<Metric>& table = metric_table();
  const auto found = std::find_if(table.begin(), table.end(), [&](const Metric& metric) { return metric.name == name; });
  return found == table.end() ? nullptr : &*found;
}

std::vector<std::pair<std::string, double>> figures_of(const Metrics& metrics, TimelineKind kind, MetricSummary summary) {
  std::vector<std::pair<std::string, double>> figures;
  for (const Metric& metric : metric_table()) {
    if (metric.summary != summary && metric.summary != MetricSummary::Both) continue;
    if (metric.in == MetricIn::Simulations && kind != TimelineKind::Simulated) continue;
    if (metric.is_known == nullptr || metric.is_known(metrics)) figures.emplace_back(metric.name, metric.of_step(metrics));
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
