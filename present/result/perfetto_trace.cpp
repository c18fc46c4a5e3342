// Chrome trace-event JSON as PyTorch's profiler (Kineto) writes it, so that Perfetto and trace tools read a prediction like a
// recorded run: kernels with cat "kernel", collectives named ncclDevKernel_*, times in microseconds to the nanosecond.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.hpp"
#include "base/text/json_text.hpp"
#include "present/result/result.hpp"

namespace panpipe {
namespace {

constexpr int kTracksPerLane = 100;  // tid = lane * kTracksPerLane + track

// Both ends of a span are rounded, not its length, so that spans which touch still touch.
std::int64_t to_nanoseconds(Duration time) { return std::llround(time.base() * 1e9); }

// A measured memory curve may begin a little before time 0, where the first rank left the barrier.
std::string microseconds(std::int64_t ns) {
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns) / 1000, std::abs(ns) % 1000);
}

// What NCCL calls its kernels; without the element type and protocol, which a prediction does not know.
std::string kernel_name(const Span& span) {
  if (span.lane == Lane::Send || span.lane == Lane::Receive) return to_text(span.action);
  if (span.label == "all_reduce") return "ncclDevKernel_AllReduce_Sum";
  if (span.label == "all_gather") return "ncclDevKernel_AllGather";
  if (span.label == "reduce_scatter") return "ncclDevKernel_ReduceScatter_Sum";
  if (!span.label.empty()) return span.label;
  return to_text(span.action);
}

std::string_view category(Lane lane) {
  switch (lane) {
    case Lane::Copy:
      return "gpu_memcpy";
    case Lane::Host:
      return "cpu_op";
    default:
      return "kernel";
  }
}

// An event and where it belongs in time; at one instant slices come first, then the tails of arrows, then their heads.
struct Event {
  std::int64_t ns = 0;
  int order = 0;
  std::string text;
};

class TraceWriter {
 public:
  // `prefix` stands before the names of this timeline's processes; they are numbered from `first_process`, its flows from
  // `first_flow`.
  TraceWriter(const Timeline& timeline, std::string prefix, int first_process, std::int32_t first_flow)
      : timeline_(timeline), prefix_(std::move(prefix)), first_process_(first_process), first_flow_(first_flow) {}

  void write() {
    for (const DeviceTimeline& device : timeline_.devices) {
      if (device.same_as >= 0) continue;
      name_process(device);
      for (const MemorySample& sample : device.memory) {
        add(sample.at, 3,
            fmt::format(R"("ph": "C", "name": "memory", "pid": {}, "tid": 0, "ts": {}, "args": {{"allocated_bytes": {}}})",
                        process(device.device), microseconds(to_nanoseconds(sample.at)), sample.allocated.base()));
      }
    }
    add_slices();
  }

  int process(std::int32_t device) const { return first_process_ + device; }
  std::int32_t flow(const Span& span) const { return first_flow_ + span.flow_id; }

  // Takes what another one wrote.
  void append(const TraceWriter& other) {
    metadata_.insert(metadata_.end(), other.metadata_.begin(), other.metadata_.end());
    events_.insert(events_.end(), other.events_.begin(), other.events_.end());
  }

  std::string finish(std::string_view kind) {
    std::stable_sort(events_.begin(), events_.end(),
                     [](const Event& a, const Event& b) { return a.ns != b.ns ? a.ns < b.ns : a.order < b.order; });
    std::string out = R"({"displayTimeUnit": "ms", "otherData": {"producer": "panpipe", "kind": ")";
    out += kind;
    out += "\"}, \"traceEvents\": [";
    bool first = true;
    for (const auto* list : {&metadata_, &events_}) {
      for (const Event& event : *list) {
        out += first ? "\n{" : ",\n{";
        out += event.text + "}";
        first = false;
      }
    }
    return out + "\n]}\n";
  }

 private:
  void add(Duration at, int order, std::string text) { events_.push_back({to_nanoseconds(at), order, std::move(text)}); }

  void name_process(const DeviceTimeline& device) {
    const auto entry = [&](std::string_view name, const std::string& args) {
      metadata_.push_back({0, 0,
                           fmt::format(R"("ph": "M", "name": "{}", "pid": {}, "tid": 0, "ts": 0, "args": {{{}}})", name,
                                       process(device.device), args)});
    };
    entry("process_name", fmt::format("\"name\": \"{}device {} (rank {})\"", prefix_, device.device, device.rank));
    entry("process_labels", fmt::format(R"("labels": "{}")", name_of(timeline_.kind)));
    entry("process_sort_index", fmt::format(R"("sort_index": {})", process(device.device)));
  }

  void name_thread(std::int32_t device, Lane lane, int track) {
    const int tid = static_cast<int>(lane) * kTracksPerLane + track;
    const std::string name = track == 0 ? std::string(name_of(lane)) : fmt::format("{} ({})", name_of(lane), track + 1);
    metadata_.push_back(
        {0, 0,
         fmt::format(R"("ph": "M", "name": "thread_name", "pid": {}, "tid": {}, "ts": 0, "args": {{"name": "{}"}})",
                     process(device), tid, name)});
    metadata_.push_back(
        {0, 0,
         fmt::format(R"("ph": "M", "name": "thread_sort_index", "pid": {0}, "tid": {1}, "ts": 0, "args": {{"sort_index": {1}}})",
                     process(device), tid)});
  }

  // Spans come sorted by (device, lane, start). One that starts before the last on its track has ended takes the next track.
  void add_slices() {
    std::vector<std::int64_t> track_end;
    const Span* previous = nullptr;
    for (const Span& span : timeline_.spans) {
      if (previous == nullptr || previous->device != span.device || previous->lane != span.lane) track_end.clear();
      previous = &span;
      const std::int64_t start = to_nanoseconds(span.start), end = to_nanoseconds(span.end);
      std::size_t track = 0;
      while (track < track_end.size() && track_end[track] > start) ++track;
      if (track == track_end.size()) {
        track_end.push_back(0);
        name_thread(span.device, span.lane, static_cast<int>(track));
      }
      track_end[track] = end;
      add_slice(span, static_cast<int>(span.lane) * kTracksPerLane + static_cast<int>(track), start, end);
    }
  }

  void add_slice(const Span& span, int tid, std::int64_t start, std::int64_t end) {
    std::string args = fmt::format(R"("device": {}, "stream": {})", span.device, static_cast<int>(span.lane));
    if (span.action.stage >= 0) args += fmt::format(R"(, "stage": {})", span.action.stage);
    if (span.action.microbatch >= 0) args += fmt::format(R"(, "microbatch": {})", span.action.microbatch);
    if (!span.label.empty()) args += R"(, "Collective name": )" + json::text(span.label);
    if (span.peer >= 0) args += fmt::format(R"(, "peer": {})", span.peer);
    if (span.bytes != Bytes(0)) args += fmt::format(R"(, "bytes": {})", span.bytes.base());
    if (span.waiting > Duration(0)) args += R"(, "waiting us": )" + microseconds(to_nanoseconds(span.waiting));
    if (span.alone > Duration(0)) args += R"(, "alone us": )" + microseconds(to_nanoseconds(span.alone));
    add(span.start, 0,
        fmt::format(R"("ph": "X", "cat": "{}", "name": {}, "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{{}}})",
                    category(span.lane), json::text(kernel_name(span)), process(span.device), tid, microseconds(start),
                    microseconds(end - start), args));
    if (span.flow_id < 0) return;
    const bool sends = span.lane == Lane::Send;
    add(span.start, sends ? 1 : 2,
        fmt::format(R"("ph": "{}", "id": {}, "cat": "transfer", "name": "transfer", "pid": {}, "tid": {}, "ts": {}{})",
                    sends ? "s" : "f", flow(span), process(span.device), tid, microseconds(start),
                    sends ? "" : R"(, "bp": "e")"));
  }

  const Timeline& timeline_;
  const std::string prefix_;
  const int first_process_;
  const std::int32_t first_flow_;
  std::vector<Event> metadata_, events_;
};

}  // namespace

std::string to_trace_json(const Timeline& timeline) {
  TraceWriter writer(timeline, "", 0, 0);
  writer.write();
  return writer.finish(name_of(timeline.kind));
}

std::string to_trace_json(const std::vector<std::pair<std::string, const Timeline*>>& timelines) {
  PANPIPE_CHECK(!timelines.empty(), "a trace of something");
  int processes = 0;
  std::int32_t flows = 0;
  std::vector<TraceWriter> writers;
  for (const auto& [name, timeline] : timelines) {
    writers.emplace_back(*timeline, name + ": ", processes, flows).write();
    for (const DeviceTimeline& device : timeline->devices)
      processes = std::max(processes, writers.back().process(device.device) + 1);
    for (const Span& span : timeline->spans) flows = std::max(flows, writers.back().flow(span) + 1);
  }
  for (std::size_t i = 1; i < writers.size(); ++i) writers.front().append(writers[i]);
  return writers.front().finish("comparison");
}

}  // namespace panpipe
