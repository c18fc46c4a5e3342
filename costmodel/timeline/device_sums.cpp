#include "costmodel/timeline/device_sums.hpp"

#include <algorithm>
#include <utility>

#include "base/index.hpp"
#include "costmodel/timeline/step_metrics.hpp"
#include "costmodel/timeline/step_time.hpp"

namespace panpipe {
namespace {

bool is_communication(Lane lane) {
  return lane == Lane::Tensor || lane == Lane::Send || lane == Lane::Receive || lane == Lane::Data || lane == Lane::Vocabulary;
}

Interval in_seconds(Ticks start, Ticks end) { return {to_duration(start).base(), to_duration(end).base()}; }

}  // namespace

void DeviceIntervals::add(Lane lane, const Interval& given, double waiting_inside) {
  Interval interval = given;
  if (window) {
    interval = {std::max(given.start, window->start), std::min(given.end, window->end)};
    if (interval.end <= interval.start) return;
  }
  last_end = std::max(last_end, interval.end);
  if (lane == Lane::Compute) {
    compute.push_back(interval);
    waiting += waiting_inside;
  } else if (is_communication(lane)) {
    communication.push_back(interval);
  }
}

DeviceSums sums_of(DeviceIntervals intervals, double step) {
  const std::vector<Interval> compute = united(std::move(intervals.compute));
  const std::vector<Interval> communication = united(std::move(intervals.communication));
  DeviceSums sums;
  sums.busy = length(compute);
  const double waiting = std::min(intervals.waiting, sums.busy);
  if (!compute.empty()) sums.span = compute.back().end - compute.front().start;
  sums.metrics.step_time_s = intervals.last_end;
  sums.metrics.compute_s = sums.busy - waiting;
  sums.metrics.exposed_communication_s = waiting + length(communication) - common_length(compute, communication);
  if (intervals.window) {
    for (double* sum : {&sums.busy, &sums.span, &sums.metrics.compute_s, &sums.metrics.exposed_communication_s})
      *sum /= intervals.steps;
    sums.metrics.step_time_s = step;
  }
  sums.metrics.bubble_step = step > 0 ? std::max(0.0, 1.0 - sums.busy / step) : 0;
  sums.metrics.bubble_span = sums.span > 0 ? std::max(0.0, 1.0 - sums.busy / sums.span) : 0;
  return sums;
}

std::vector<DeviceIntervals> intervals_of(const TaskGraph& graph, const TaskTimes& times,
                                          const std::vector<std::int32_t>& devices) {
  std::vector<DeviceIntervals> intervals(devices.size());
  std::vector<DeviceIntervals*> of_rank;  // null: a rank of another device
  for (int rank = 0; rank < graph.ranks; ++rank) {
    const auto found = std::find(devices.begin(), devices.end(), graph.device(rank, 0, 0));
    of_rank.push_back(found == devices.end() ? nullptr : &intervals[found - devices.begin()]);
  }
  const std::optional<RolledSteps> rolled = rolled_steps(graph, times);
  for (int rank = 0; rank < graph.ranks && rolled; ++rank) {
    if (of_rank[rank] == nullptr) continue;
    const Interval& window = rolled->windows.at(rank);
    of_rank[rank]->window = in_seconds(Ticks(window.start), Ticks(window.end));
    of_rank[rank]->steps = rolled->steps;
  }
  for (DeviceIntervals& of : intervals)
    of.communication.reserve((times.collectives.size() + 2 * graph.transfers.size()) / devices.size());
  // They are most, and they are in order: united() goes fastest when they come first.
  for (const TaskTimes::PassCollective& c : times.collectives)
    if (DeviceIntervals* of = of_rank[graph.tasks[c.task].rank]; of != nullptr) of->add(Lane::Tensor, in_seconds(c.start, c.end));
  for (int rank = 0; rank < graph.ranks; ++rank) {
    DeviceIntervals* of = of_rank[rank];
    if (of == nullptr) continue;
    for (std::int32_t t = graph.rank_begin[rank]; t < graph.rank_begin[at(rank) + 1]; ++t)
      of->add(counted_lane(graph.tasks[t].lane, graph.tasks[t].action.kind), in_seconds(times.task_start[t], times.task_end[t]),
              times.task_waiting.empty() ? 0 : to_duration(times.task_waiting[t]).base());
  }
  for (std::size_t i = 0; i < graph.transfers.size(); ++i) {
    const TransferLink& link = graph.links[graph.transfers[i].link];
    DeviceIntervals *from = of_rank[link.from_rank], *to = of_rank[link.to_rank];
    const Interval interval = in_seconds(times.transfer_start[i], times.transfer_end[i]);
    if (from != nullptr) from->add(Lane::Send, interval);
    if (to != nullptr && to != from) to->add(Lane::Receive, interval);
  }
  return intervals;
}

double exposed_communication(const TaskGraph& graph, const TaskTimes& times, std::int32_t device) {
  return sums_of(std::move(intervals_of(graph, times, {device}).front()), 0).metrics.exposed_communication_s;
}

}  // namespace panpipe
