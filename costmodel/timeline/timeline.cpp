#include "costmodel/timeline/timeline.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/index.hpp"
#include "costmodel/lowering/collective_label.hpp"
#include "costmodel/timeline/memory_curve.hpp"
#include "costmodel/timeline/step_metrics.hpp"
#include "costmodel/timeline/step_time.hpp"

namespace panpipe {

std::string_view name_of(TimelineKind kind) {
  constexpr std::string_view kNames[] = {"estimated", "simulated", "measured"};
  return kNames[at(kind)];
}

namespace {

// Makes the spans of a lowered step, for the first device of every rank (data 0, tensor 0). Spans are large and many: they are
// made once, in their final order, from small entries that are collected and ordered per device and lane.
class SpanMaker {
 public:
  SpanMaker(const TaskGraph& graph, const TaskTimes& times) : graph_(graph), times_(times) {
    for (int rank = 0; rank < graph.ranks; ++rank) devices_.push_back(graph.device(rank, 0, 0));
    std::sort(devices_.begin(), devices_.end());
    devices_.erase(std::unique(devices_.begin(), devices_.end()), devices_.end());
    for (int rank = 0; rank < graph.ranks; ++rank) {
      const auto place = std::lower_bound(devices_.begin(), devices_.end(), graph.device(rank, 0, 0));
      first_list_.push_back(static_cast<std::size_t>(place - devices_.begin()) * kLanes);
    }
    entries_.resize(devices_.size() * kLanes);
  }

  // By (device, lane, start); what starts together keeps the order of tasks, then transfers.
  std::vector<Span> make() {
    for (std::size_t t = 0; t < graph_.tasks.size(); ++t) add_task(t);
    for (const TaskTimes::PassCollective& c : times_.collectives)
      entries(graph_.tasks[c.task].rank, Lane::Tensor).push_back({to_duration(c.start), to_duration(c.end), c.task, c.step});
    for (std::size_t i = 0; i < graph_.transfers.size(); ++i) add_transfer(i);
    std::size_t count = 0;
    for (const auto& list : entries_) count += list.size();
    std::vector<Span> spans(count);
    Span* span = spans.data();
    const auto earlier = [](const Entry& a, const Entry& b) { return a.start < b.start; };
    for (std::size_t list = 0; list < entries_.size(); ++list) {
      auto& entries = entries_[list];
      if (!std::is_sorted(entries.begin(), entries.end(), earlier)) std::stable_sort(entries.begin(), entries.end(), earlier);
      for (const Entry& entry : entries) {
        span->device = devices_[list / kLanes];
        span->lane = static_cast<Lane>(list % kLanes);
        span->start = entry.start;
        span->end = entry.end;
        fill(entry, *span++);
      }
    }
    return spans;
  }

 private:
  static constexpr std::int32_t kWholeTask = -1, kSend = -2, kReceive = -3;  // in place of a step

  struct Entry {
    Duration start, end;
    std::int32_t source;  // task, or transfer
    std::int32_t step;    // of a pass: a collective inside it; or one of the three above
  };

  std::vector<Entry>& entries(std::int32_t rank, Lane lane) {
    return entries_[first_list_[rank] + static_cast<std::size_t>(lane)];
  }

  void add_task(std::size_t t) {
    const Task& task = graph_.tasks[t];
    entries(task.rank, task.lane)
        .push_back(
            {to_duration(times_.task_start[t]), to_duration(times_.task_end[t]), static_cast<std::int32_t>(t), kWholeTask});
  }

  void add_transfer(std::size_t i) {
    const TransferLink& link = graph_.links[graph_.transfers[i].link];
    const Duration start = to_duration(times_.transfer_start[i]), end = to_duration(times_.transfer_end[i]);
    entries(link.from_rank, Lane::Send).push_back({start, end, static_cast<std::int32_t>(i), kSend});
    entries(link.to_rank, Lane::Receive).push_back({start, end, static_cast<std::int32_t>(i), kReceive});
  }

  void fill(const Entry& entry, Span& span) const {
    const auto source = static_cast<std::size_t>(entry.source);
    if (entry.step == kWholeTask) {
      fill_task(source, span);
    } else if (entry.step == kSend || entry.step == kReceive) {
      fill_transfer(source, entry.step == kSend, span);
    } else {
      const ProgramStep& step = graph_.steps[entry.step];
      span.action = graph_.tasks[source].action;
      span.alone = to_duration(step.time);
      span.label = step.flow >= 0 ? collective_label(flow(step.flow).cost.kind, flow(step.flow).cost.among) : "collective";
      if (step.flow >= 0) span.bytes = flow(step.flow).cost.bytes;
    }
  }

  void fill_task(std::size_t t, Span& span) const {
    const Task& task = graph_.tasks[t];
    span.action = task.action;
    if (task.kind == TaskKind::Offload) span.bytes = task.give;
    if (task.kind == TaskKind::Reload) span.bytes = task.take;
    if (task.flow >= 0) {
      const CollectiveKind kind = flow(task.flow).cost.kind;
      const bool broadcast = task.lane == Lane::Vocabulary && kind == CollectiveKind::AllGather;  // priced as that
      span.label = broadcast ? "broadcast" : collective_label(kind);
      span.bytes = flow(task.flow).cost.bytes;
      span.alone = to_duration(flow(task.flow).latency + flow(task.flow).transfer);
    }
    if (!times_.task_waiting.empty()) span.waiting = to_duration(times_.task_waiting[t]);
  }

  void fill_transfer(std::size_t i, bool send, Span& span) const {
    const Transfer& transfer = graph_.transfers[i];
    const TransferLink& link = graph_.links[transfer.link];
    span.peer = graph_.device(send ? link.to_rank : link.from_rank, 0, 0);
    span.action.kind =
        transfer.backward ? (send ? ActionKind::SendB : ActionKind::RecvB) : (send ? ActionKind::SendF : ActionKind::RecvF);
    const Action& consumer = graph_.tasks[transfer.consumer].action;
    span.action.stage = send ? transfer.stage : consumer.stage;
    span.action.microbatch = transfer.microbatch;
    span.action.split = consumer.split;
    span.bytes = link.cost.bytes;
    span.alone = to_duration(times_.transfer_alone.empty() ? link.latency + link.transfer : times_.transfer_alone[i]);
    span.flow_id = static_cast<std::int32_t>(i);
  }

  const CollectiveFlow& flow(std::int32_t f) const { return graph_.flows[f]; }

  const TaskGraph& graph_;
  const TaskTimes& times_;
  std::vector<std::int32_t> devices_;        // with spans, ascending
  std::vector<std::size_t> first_list_;      // per rank, of its device's lists
  std::vector<std::vector<Entry>> entries_;  // [device][lane]
};

std::vector<DeviceTimeline> make_devices(const TaskGraph& graph, const TaskTimes& times) {
  std::vector<DeviceTimeline> devices;
  devices.reserve(graph.devices.size());
  for (int rank = 0; rank < graph.ranks; ++rank) {
    DeviceTimeline original;
    original.rank = graph.pipeline_rank(rank);
    original.device = graph.device(rank, 0, 0);
    add_memory(graph, times, rank, original);
    const auto limit_of = [&](int data, int tensor) {
      const std::size_t position =
          static_cast<std::size_t>((rank * graph.degrees.replicas() + data) * graph.degrees.tensor + tensor);
      return position < graph.limits.size() ? graph.limits[position] : original.limit;
    };
    original.limit = limit_of(0, 0);
    DeviceTimeline copy;
    copy.rank = original.rank;
    copy.same_as = original.device;
    copy.peak = original.peak;
    copy.allocated = original.allocated;
    copy.reserved = original.reserved;
    for (int data = 0; data < graph.degrees.replicas(); ++data) {
      for (int tensor = 0; tensor < graph.degrees.tensor; ++tensor) {
        if (data == 0 && tensor == 0) continue;
        copy.device = graph.device(rank, data, tensor);
        copy.limit = limit_of(data, tensor);
        devices.push_back(copy);
      }
    }
    devices.push_back(std::move(original));
  }
  std::sort(devices.begin(), devices.end(), [](const auto& a, const auto& b) { return a.device < b.device; });
  return devices;
}

}  // namespace

Timeline spanless_timeline(const TaskGraph& graph, const TaskTimes& times, TimelineKind kind) {
  PANPIPE_CHECK(times.task_start.size() == graph.tasks.size() && times.task_end.size() == graph.tasks.size(),
                "a start and an end for every task");
  PANPIPE_CHECK(times.transfer_start.size() == graph.transfers.size() && times.transfer_end.size() == graph.transfers.size(),
                "a start and an end for every transfer");
  Timeline timeline;
  timeline.kind = kind;
  timeline.step_time = to_duration(panpipe::step_time(graph, times));
  timeline.devices = make_devices(graph, times);
  timeline.trained_parameters = graph.trained_parameters;
  timeline.model_flops_per_step = graph.model_flops_per_step;
  timeline.samples_per_step = graph.samples_per_step;
  timeline.peak_per_device = graph.peak_per_device;
  return timeline;
}

Timeline make_timeline(const TaskGraph& graph, const TaskTimes& times, TimelineKind kind) {
  Timeline timeline = spanless_timeline(graph, times, kind);
  timeline.spans = SpanMaker(graph, times).make();
  return timeline;
}

}  // namespace panpipe
