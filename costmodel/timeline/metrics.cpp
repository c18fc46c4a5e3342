// Computes every figure of a timeline, predicted or measured. Definitions: docs/models/metrics.md.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "costmodel/timeline/device_sums.hpp"
#include "costmodel/timeline/memory_room.hpp"
#include "costmodel/timeline/metric_table.hpp"
#include "costmodel/timeline/step_metrics.hpp"
#include "costmodel/timeline/step_time.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe {
namespace {

DeviceSums measure_device(const Span* first, const Span* last, double step, const std::optional<RolledSteps>& rolled) {
  DeviceIntervals intervals;
  if (rolled) {
    intervals.window = rolled->windows.at(first->device);
    intervals.steps = rolled->steps;
  }
  for (const Span* span = first; span != last; ++span)
    intervals.add(counted_lane(span->lane, span->action.kind), {span->start.base(), span->end.base()}, span->waiting.base());
  return sums_of(std::move(intervals), step);
}

// The last place where a number that is none can be stopped: no document and no table shows one.
void check_finite(const Timeline& timeline, const Metrics& m) {
  for (const Span& span : timeline.spans)
    for (const auto& [end, time] : {std::pair("starts", span.start), std::pair("ends", span.end)})
      if (!std::isfinite(time.base()))
        throw not_finite(fmt::format("time: {} on device {} {} at {} s", span.label.empty() ? to_text(span.action) : span.label,
                                     span.device, end, time.base()));
  for (const Metric& metric : metric_table())
    if (const double value = metric.of_step(m); !std::isfinite(value))
      throw not_finite(fmt::format("figure: {} is {}", metric.name, value));
}

using SumsOfDevices = std::unordered_map<std::int32_t, DeviceSums>;  // of devices with spans of their own

// The figures of a timeline whose spans are summed up already.
Metrics metrics_from(const Timeline& timeline, const SumsOfDevices& sums, Duration first_step) {
  Metrics result;
  result.step_time_s = timeline.step_time.base();
  if (first_step > Duration(0)) {
    result.period_s = result.step_time_s;
    result.first_step_s = first_step.base();
  }
  double busy = 0, span = 0;
  for (const DeviceTimeline& device : timeline.devices) {
    const auto found = sums.find(device.same_as >= 0 ? device.same_as : device.device);
    DeviceSums of_device = found == sums.end() ? sums_of({}, result.step_time_s) : found->second;
    DeviceMetrics& row = of_device.metrics;
    row.device = device.device;
    row.rank = device.rank;
    row.allocated_memory_bytes = static_cast<double>(device.allocated.base());
    row.reserved_memory_bytes = static_cast<double>(device.reserved.base());
    row.peak_memory_bytes = static_cast<double>(device.peak.base());
    row.memory_limit_bytes = static_cast<double>(device.limit.base());
    row.fits = fits(device);
    busy += of_device.busy;
    span += of_device.span;
    result.compute_s += row.compute_s;
    result.exposed_communication_s += row.exposed_communication_s;
    result.per_device.push_back(row);
  }
  const double devices = static_cast<double>(timeline.devices.size());
  if (devices > 0) {
    result.compute_s /= devices;
    result.exposed_communication_s /= devices;
  }
  const StepMemory memory = step_memory(timeline.devices);
  result.allocated_memory_bytes = memory.allocated_bytes;
  result.reserved_memory_bytes = memory.reserved_bytes;
  result.peak_memory_bytes = memory.peak_bytes;
  result.memory_limit_bytes = memory.limit_bytes;
  result.memory_share = memory.share;
  result.fits = memory.fits;
  result.parameters = static_cast<double>(timeline.trained_parameters);
  result.model_flops = timeline.model_flops_per_step.base();
  if (result.step_time_s > 0 && devices > 0) {
    result.bubble_step = std::max(0.0, 1.0 - busy / (result.step_time_s * devices));
    result.samples_per_s = timeline.samples_per_step / result.step_time_s;
    const double peak = timeline.peak_per_device.base() * devices;
    if (peak > 0) result.mfu = result.model_flops / (result.step_time_s * peak);
  }
  if (span > 0) result.bubble_span = std::max(0.0, 1.0 - busy / span);
  result.contention_s = timeline.contention_lost.base();
  for (const MeasuredStep& step : timeline.steps) {
    const double time = step.step_time.base();
    result.step_time_min_s = result.step_time_min_s == 0 ? time : std::min(result.step_time_min_s, time);
    result.step_time_max_s = std::max(result.step_time_max_s, time);
  }
  check_finite(timeline, result);
  return result;
}

}  // namespace

Metrics metrics(const Timeline& timeline) {
  SumsOfDevices sums;
  const std::optional<RolledSteps> rolled = rolled_steps(timeline);
  const Span* const end = timeline.spans.data() + timeline.spans.size();
  for (const Span* first = timeline.spans.data(); first != end;) {
    const Span* last = first;
    while (last != end && last->device == first->device) ++last;
    sums[first->device] = measure_device(first, last, timeline.step_time.base(), rolled);
    first = last;
  }
  return metrics_from(timeline, sums, Duration(rolled ? rolled->first_step : 0));
}

bool all_finite(const TaskTimes& times) {
  const auto finite = [](Ticks time) { return std::isfinite(time.base()); };
  for (const auto* list : {&times.task_start, &times.task_end, &times.transfer_start, &times.transfer_end})
    if (!std::all_of(list->begin(), list->end(), finite)) return false;
  return true;
}

Metrics step_metrics(const TaskGraph& graph, const TaskTimes& times, TimelineKind kind) {
  if (!all_finite(times)) return metrics(make_timeline(graph, times, kind));  // throws with the name of the figure
  const Timeline frame = spanless_timeline(graph, times, kind);
  std::vector<std::int32_t> devices;
  for (int rank = 0; rank < graph.ranks; ++rank) devices.push_back(graph.device(rank, 0, 0));
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  std::vector<DeviceIntervals> intervals = intervals_of(graph, times, devices);
  SumsOfDevices sums;
  for (std::size_t d = 0; d < devices.size(); ++d) sums[devices[d]] = sums_of(std::move(intervals[d]), frame.step_time.base());
  const std::optional<RolledSteps> rolled = rolled_steps(graph, times);
  return metrics_from(frame, sums, rolled ? to_duration(Ticks(rolled->first_step)) : Duration(0));
}

InputError not_finite(const std::string& figure) {
  return InputError(
      "no finite " + figure,
      "a cost that the inputs give is too large or too small; panpipe check --costs prints them, each with its source",
      code::kOutOfRange);
}

}  // namespace panpipe
