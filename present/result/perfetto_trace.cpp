// Chrome trace-event JSON as PyTorch's profiler (Kineto) writes it, so that Perfetto and trace tools read a prediction like a
// recorded run: kernels with cat "kernel", collectives named ncclDevKernel_*, times in microseconds to the nanosecond.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text/json_writer.hpp"
#include "present/result/result.hpp"

namespace panpipe::present {
namespace {

constexpr int kTracksPerLane = 100;  // tid = lane * kTracksPerLane + track

std::int64_t to_nanoseconds(Duration time) { return std::llround(time.base() * 1e9); }

// Microseconds with nanoseconds behind the point. A measured memory curve may begin a little before time 0, where the first rank
// left the barrier.
double microseconds(std::int64_t ns) { return static_cast<double>(ns) / 1000; }
double microseconds(Duration time) { return microseconds(to_nanoseconds(time)); }

// The names of NCCL's kernels; without the element type and protocol, which a prediction does not know.
std::string kernel_name(const Span& span) {
  if (span.lane == Lane::Send || span.lane == Lane::Receive) return to_text(span.action);
  if (span.label == "all_reduce") return "ncclDevKernel_AllReduce_Sum";
  if (span.label == "all_gather") return "ncclDevKernel_AllGather";
  if (span.label == "reduce_scatter") return "ncclDevKernel_ReduceScatter_Sum";
  if (!span.label.empty()) return span.label;
  return to_text(span.action);
}

std::string_view category(Lane lane) { return lane == Lane::Copy ? "gpu_memcpy" : "kernel"; }

// At one instant slices come first, then the tails of arrows, then their heads, then memory.
enum class EventKind : std::uint8_t { Slice, Tail, Head, Memory };

class TraceOfTimeline;

struct Event {
  std::int64_t ns = 0;
  EventKind kind{};
  const TraceOfTimeline* of = nullptr;
  const Span* span = nullptr;  // of a slice and an arrow
  int tid = 0;
  std::int32_t device = 0;               // of memory
  const MemorySample* sample = nullptr;  // of memory
};

void begin_event(JsonWriter& out, const char* phase, std::string_view name, int process, int tid) {
  out.object().field("ph", phase).field("name", name).field("pid", process).field("tid", tid);
}

// One of the timelines of a trace.
class TraceOfTimeline {
 public:
  // `prefix` stands before the names of this timeline's processes; they are numbered from `first_process`, its flows from
  // `first_flow`.
  TraceOfTimeline(const Timeline& timeline, std::string prefix, int first_process, std::int32_t first_flow)
      : timeline_(timeline), prefix_(std::move(prefix)), first_process_(first_process), first_flow_(first_flow) {}

  int process(std::int32_t device) const { return first_process_ + device; }
  std::int32_t flow(const Span& span) const { return first_flow_ + span.flow_id; }

  // Writes the names of processes and tracks, and adds the events.
  void name_tracks(JsonWriter& out, std::vector<Event>& events) const {
    for (const DeviceTimeline& device : timeline_.devices) {
      if (device.same_as >= 0) continue;
      name_process(out, device);
      for (const MemorySample& sample : device.memory)
        events.push_back({to_nanoseconds(sample.at), EventKind::Memory, this, nullptr, 0, device.device, &sample});
    }
    // Spans come sorted by (device, lane, start). One that starts before the last on its track has ended takes the next track.
    std::vector<std::int64_t> track_end;
    const Span* previous = nullptr;
    for (const Span& span : timeline_.spans) {
      if (previous == nullptr || previous->device != span.device || previous->lane != span.lane) track_end.clear();
      previous = &span;
      const std::int64_t start = to_nanoseconds(span.start);
      std::size_t track = 0;
      while (track < track_end.size() && track_end[track] > start) ++track;
      const int tid = static_cast<int>(span.lane) * kTracksPerLane + static_cast<int>(track);
      if (track == track_end.size()) {
        track_end.push_back(0);
        name_thread(out, span, tid, track);
      }
      track_end[track] = to_nanoseconds(span.end);
      events.push_back({start, EventKind::Slice, this, &span, tid});
      if (span.flow_id >= 0)
        events.push_back({start, span.lane == Lane::Send ? EventKind::Tail : EventKind::Head, this, &span, tid});
    }
  }

  void write(JsonWriter& out, const Event& event) const {
    switch (event.kind) {
      case EventKind::Slice:
        return write_slice(out, *event.span, event.tid);
      case EventKind::Memory:
        begin_event(out, "C", "memory", process(event.device), 0);
        out.field("ts", microseconds(event.ns)).object("args");
        out.field("allocated_bytes", event.sample->allocated.base()).end().end();
        return;
      case EventKind::Tail:
      case EventKind::Head:
        begin_event(out, event.kind == EventKind::Tail ? "s" : "f", "transfer", process(event.span->device), event.tid);
        out.field("cat", "transfer").field("id", flow(*event.span)).field("ts", microseconds(event.ns));
        if (event.kind == EventKind::Head) out.field("bp", "e");
        out.end();
    }
  }

 private:
  template <class T>
  static void name(JsonWriter& out, std::string_view what, int process, int tid, std::string_view key, const T& value) {
    begin_event(out, "M", what, process, tid);
    out.field("ts", 0).object("args").field(key, value).end().end();
  }

  void name_process(JsonWriter& out, const DeviceTimeline& device) const {
    const int id = process(device.device);
    name(out, "process_name", id, 0, "name", fmt::format("{}device {} (rank {})", prefix_, device.device, device.rank));
    name(out, "process_labels", id, 0, "labels", name_of(timeline_.kind));
    name(out, "process_sort_index", id, 0, "sort_index", id);
  }

  void name_thread(JsonWriter& out, const Span& span, int tid, std::size_t track) const {
    const std::string_view lane = name_of(span.lane);
    const std::string text = track == 0 ? std::string(lane) : fmt::format("{} ({})", lane, track + 1);
    name(out, "thread_name", process(span.device), tid, "name", text);
    name(out, "thread_sort_index", process(span.device), tid, "sort_index", tid);
  }

  void write_slice(JsonWriter& out, const Span& span, int tid) const {
    // Both ends are rounded, not the length, so that spans which touch still touch.
    const std::int64_t start = to_nanoseconds(span.start), end = to_nanoseconds(span.end);
    begin_event(out, "X", kernel_name(span), process(span.device), tid);
    out.field("cat", category(span.lane)).field("ts", microseconds(start)).field("dur", microseconds(end - start));
    out.object("args").field("device", span.device).field("stream", static_cast<int>(span.lane));
    if (span.action.stage >= 0) out.field("stage", span.action.stage);
    if (span.action.microbatch >= 0) out.field("microbatch", span.action.microbatch);
    if (!span.label.empty()) out.field("Collective name", span.label);
    if (span.peer >= 0) out.field("peer", span.peer);
    if (span.bytes != Bytes(0)) out.field("bytes", span.bytes.base());
    if (span.waiting > Duration(0)) out.field("waiting us", microseconds(span.waiting));
    if (span.alone > Duration(0)) out.field("alone us", microseconds(span.alone));
    out.end().end();
  }

  const Timeline& timeline_;
  const std::string prefix_;
  const int first_process_;
  const std::int32_t first_flow_;
};

std::string trace_of(const std::vector<TraceOfTimeline>& timelines, std::string_view kind) {
  JsonWriter out;
  out.object().field("displayTimeUnit", "ms").object("otherData").field("producer", "panpipe").field("kind", kind).end();
  out.list("traceEvents", JsonLayout::Flush);
  std::vector<Event> events;
  for (const TraceOfTimeline& timeline : timelines) timeline.name_tracks(out, events);
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return std::pair(a.ns, a.kind) < std::pair(b.ns, b.kind); });
  for (const Event& event : events) event.of->write(out, event);
  return out.end().end().finish() + "\n";
}

}  // namespace

std::string to_trace_json(const Timeline& timeline) { return trace_of({{timeline, "", 0, 0}}, name_of(timeline.kind)); }

std::string to_trace_json(const std::vector<std::pair<std::string, const Timeline*>>& timelines) {
  PANPIPE_CHECK(!timelines.empty(), "a trace of something");
  int processes = 0;
  std::int32_t flows = 0;
  std::vector<TraceOfTimeline> traces;
  for (const auto& [name, timeline] : timelines) {
    const TraceOfTimeline& trace = traces.emplace_back(*timeline, name + ": ", processes, flows);
    for (const DeviceTimeline& device : timeline->devices) processes = std::max(processes, trace.process(device.device) + 1);
    for (const Span& span : timeline->spans) flows = std::max(flows, trace.flow(span) + 1);
  }
  return trace_of(traces, "comparison");
}

}  // namespace panpipe::present
