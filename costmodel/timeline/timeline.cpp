#include "costmodel/timeline/timeline.hpp"

#include <algorithm>

#include "costmodel/base/error.hpp"
#include "costmodel/timeline/memory_curve.hpp"

namespace panpipe {

std::string_view name_of(TimelineKind kind) {
  switch (kind) {
    case TimelineKind::Estimated:
      return "estimated";
    case TimelineKind::Simulated:
      return "simulated";
    case TimelineKind::Measured:
      return "measured";
  }
  return "";
}

namespace {

std::string collective_label(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::AllReduce:
      return "all_reduce";
    case CollectiveKind::AllGather:
      return "all_gather";
    case CollectiveKind::ReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::None:
      break;
  }
  return "collective";
}

// Makes the spans of a lowered step, for the (data 0, tensor 0) copy of every rank.
class SpanMaker {
 public:
  SpanMaker(const TaskGraph& graph, const TaskTimes& times, std::vector<Span>& spans)
      : graph_(graph), times_(times), spans_(spans) {}

  void add_task(std::size_t t) {
    const Task& task = graph_.tasks[t];
    Span span;
    span.device = graph_.device(task.rank, 0, 0);
    span.lane = task.lane;
    span.action = task.action;
    span.start = to_duration(times_.task_start[t]);
    span.end = to_duration(times_.task_end[t]);
    if (task.flow >= 0) {
      const CollectiveFlow& flow = graph_.flows[static_cast<std::size_t>(task.flow)];
      span.label = collective_label(flow.cost.kind);
      span.bytes = flow.cost.bytes;
      span.alone = to_duration(flow.latency + flow.transfer);
    }
    if (task.program >= 0) {
      const Program& program = graph_.programs[static_cast<std::size_t>(task.program)];
      const Ticks taken = times_.task_end[t] - times_.task_start[t];
      // What a pass takes beyond its time on idle links it spends waiting for its collectives.
      const Ticks excess = std::max(Ticks(0), taken - program.duration);
      span.waiting = to_duration(program.exposed_communication + excess);
      add_collectives(program, times_.task_start[t], excess, span);
    }
    spans_.push_back(std::move(span));
  }

  void add_transfer(std::size_t i) {
    const Transfer& transfer = graph_.transfers[i];
    const TransferLink& link = graph_.links[static_cast<std::size_t>(transfer.link)];
    const int sender = graph_.device(link.from_rank, 0, 0);
    const int receiver = graph_.device(link.to_rank, 0, 0);
    Span span;
    span.device = sender;
    span.peer = receiver;
    span.lane = Lane::Send;
    span.action.kind = transfer.backward ? ActionKind::SendB : ActionKind::SendF;
    span.action.stage = transfer.stage;
    span.action.microbatch = transfer.microbatch;
    span.start = to_duration(times_.transfer_start[i]);
    span.end = to_duration(times_.transfer_end[i]);
    span.bytes = link.cost.bytes;
    span.alone = to_duration(times_.transfer_alone.empty() ? link.latency + link.transfer : times_.transfer_alone[i]);
    span.flow_id = static_cast<std::int32_t>(i);
    spans_.push_back(span);
    std::swap(span.device, span.peer);
    span.lane = Lane::Receive;
    span.action.kind = transfer.backward ? ActionKind::RecvB : ActionKind::RecvF;
    span.action.stage = graph_.tasks[static_cast<std::size_t>(transfer.consumer)].action.stage;
    spans_.push_back(std::move(span));
  }

 private:
  // The tensor-parallel collectives inside a pass. Time beyond the pass's own is spread over them by their length.
  void add_collectives(const Program& program, Ticks pass_start, Ticks excess, const Span& pass) {
    const auto first = graph_.steps.begin() + program.first_step;
    Ticks total{0};
    for (auto step = first; step != first + program.steps; ++step) {
      if (step->collective) total += step->time;
    }
    if (total == Ticks(0)) return;
    const double stretch = 1.0 + excess / total;
    Ticks at = pass_start;  // when the next step may start
    Ticks beside{0};        // end of a collective that runs beside the next compute step; 0 = none
    for (auto step = first; step != first + program.steps; ++step) {
      if (!step->collective) {
        at += step->time;
        if (beside > Ticks(0)) at = std::max(at, beside);
        beside = Ticks(0);
        continue;
      }
      const Ticks end = at + Ticks(std::nearbyint(step->time.base() * stretch));
      Span span;
      span.device = pass.device;
      span.lane = Lane::Tensor;
      span.action = pass.action;
      span.start = to_duration(at);
      span.end = to_duration(end);
      span.alone = to_duration(step->time);
      span.label = "collective";
      if (step->flow >= 0) {
        const CollectiveFlow& flow = graph_.flows[static_cast<std::size_t>(step->flow)];
        span.label = collective_label(flow.cost.kind);
        span.bytes = flow.cost.bytes;
      }
      spans_.push_back(std::move(span));
      if (step->overlapped) {
        beside = end;
      } else {
        at = end;
      }
    }
  }

  const TaskGraph& graph_;
  const TaskTimes& times_;
  std::vector<Span>& spans_;
};

std::vector<DeviceTimeline> make_devices(const TaskGraph& graph, const TaskTimes& times) {
  std::vector<DeviceTimeline> devices;
  devices.reserve(graph.devices.size());
  for (int rank = 0; rank < graph.ranks; ++rank) {
    DeviceTimeline original;
    original.rank = rank;
    original.device = graph.device(rank, 0, 0);
    add_memory(graph, times, original);
    DeviceTimeline copy;
    copy.rank = rank;
    copy.same_as = original.device;
    copy.peak = original.peak;
    copy.limit = original.limit;
    for (int data = 0; data < graph.data; ++data) {
      for (int tensor = 0; tensor < graph.tensor; ++tensor) {
        if (data == 0 && tensor == 0) continue;
        copy.device = graph.device(rank, data, tensor);
        devices.push_back(copy);
      }
    }
    devices.push_back(std::move(original));
  }
  std::sort(devices.begin(), devices.end(), [](const auto& a, const auto& b) { return a.device < b.device; });
  return devices;
}

// By (device, lane, start); what starts together keeps the order in which it was made.
void sort_spans(std::vector<Span>& spans) {
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    if (a.device != b.device) return a.device < b.device;
    if (a.lane != b.lane) return a.lane < b.lane;
    return a.start < b.start;
  });
}

}  // namespace

Timeline make_timeline(const TaskGraph& graph, const TaskTimes& times, TimelineKind kind) {
  PANPIPE_CHECK(times.task_start.size() == graph.tasks.size() && times.task_end.size() == graph.tasks.size(),
                "a start and an end for every task");
  PANPIPE_CHECK(times.transfer_start.size() == graph.transfers.size() && times.transfer_end.size() == graph.transfers.size(),
                "a start and an end for every transfer");
  Timeline timeline;
  timeline.kind = kind;
  timeline.spans.reserve(graph.tasks.size() + 2 * graph.transfers.size());
  SpanMaker spans(graph, times, timeline.spans);
  Ticks last{0};
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    spans.add_task(t);
    last = std::max(last, times.task_end[t]);
  }
  for (std::size_t i = 0; i < graph.transfers.size(); ++i) spans.add_transfer(i);
  sort_spans(timeline.spans);
  timeline.step_time = to_duration(last);
  timeline.devices = make_devices(graph, times);
  timeline.model_flops_per_step = graph.model_flops_per_step;
  timeline.samples_per_step = graph.samples_per_step;
  timeline.peak_per_device = graph.peak_per_device;
  return timeline;
}

}  // namespace panpipe
