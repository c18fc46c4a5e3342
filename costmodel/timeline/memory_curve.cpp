#include "costmodel/timeline/memory_curve.hpp"

#include <algorithm>
#include <array>

#include "base/index.hpp"

namespace panpipe {
namespace {

struct Change {
  double at = 0;  // ticks
  bool start = false;
  std::int64_t live = 0, temporary = 0;
  std::int64_t gradients = 0;  // made, of those that are not there from the start
};

// The changes of one rank, a list per lane. Lane order puts a task's start before its end and its end before the next start.
std::array<std::vector<Change>, kLanes> changes_of_rank(const TaskGraph& graph, const TaskTimes& times, std::int32_t rank) {
  std::array<std::vector<Change>, kLanes> lanes;
  for (std::int32_t t = graph.rank_begin[rank]; t < graph.rank_begin[rank + 1]; ++t) {
    const Task& task = graph.tasks[t];
    if (task.take == Bytes(0) && task.give == Bytes(0) && task.temporary == Bytes(0) && task.gradients == Bytes(0)) continue;
    auto& lane = lanes[at(task.lane)];
    lane.push_back({times.task_start[t].base(), true, task.take.base(), task.temporary.base()});
    lane.push_back({times.task_end[t].base(), false, -task.give.base(), -task.temporary.base(), task.gradients.base()});
  }
  const auto earlier = [](const Change& a, const Change& b) { return a.at < b.at; };
  for (auto& lane : lanes) {
    // In a measured or shared-link timeline the members of a group may run in parallel.
    if (!std::is_sorted(lane.begin(), lane.end(), earlier)) std::stable_sort(lane.begin(), lane.end(), earlier);
  }
  return lanes;
}

// Merges the lanes by time; at one instant what ends goes first, so that memory handed from one lane to the next is not
// counted twice.
class Merge {
 public:
  explicit Merge(const std::array<std::vector<Change>, kLanes>& lanes) : lanes_(lanes) {}
  const Change* next() {
    std::size_t best = kLanes;
    for (std::size_t l = 0; l < kLanes; ++l) {
      if (next_[l] == lanes_[l].size()) continue;
      if (best == kLanes || before(lanes_[l][next_[l]], lanes_[best][next_[best]])) best = l;
    }
    return best == kLanes ? nullptr : &lanes_[best][next_[best]++];
  }

 private:
  static bool before(const Change& a, const Change& b) { return a.at != b.at ? a.at < b.at : a.start < b.start; }
  const std::array<std::vector<Change>, kLanes>& lanes_;
  std::array<std::size_t, kLanes> next_{};
};

// The dynamic part of a rank's memory.
struct Dynamic {
  std::int64_t live = 0, temporary = 0;
  std::int64_t not_made = 0;  // gradients that are still to come
  Bytes sum() const { return Bytes(live + temporary - not_made); }
};

// Gradients that tasks of a rank bring about.
std::int64_t late_gradients(const TaskGraph& graph, std::int32_t rank) {
  std::int64_t sum = 0;
  for (std::int32_t t = graph.rank_begin[rank]; t < graph.rank_begin[rank + 1]; ++t) sum += graph.tasks[t].gradients.base();
  return sum;
}

// Splits the peak into the parts that people know; what the allocator loses is the rest.
std::vector<MemoryPart> parts_of_peak(const std::vector<MemoryPart>& static_parts, const Dynamic& at_peak, Bytes peak) {
  std::vector<MemoryPart> parts = static_parts;
  for (MemoryPart& part : parts)
    if (part.use == MemoryUse::Gradients) part.bytes -= Bytes(at_peak.not_made);
  Bytes known{at_peak.live + at_peak.temporary};
  for (const MemoryPart& part : parts) known += part.bytes;
  if (at_peak.live != 0) parts.push_back({MemoryUse::Activations, Bytes(at_peak.live)});
  if (at_peak.temporary != 0) parts.push_back({MemoryUse::Temporary, Bytes(at_peak.temporary)});
  if (peak != known) parts.push_back({MemoryUse::Fragmentation, peak - known});
  return parts;
}

}  // namespace

void add_memory(const TaskGraph& graph, const TaskTimes& times, int rank_index, DeviceTimeline& device) {
  const auto rank = static_cast<std::size_t>(rank_index);
  Allocation allocation;
  if (rank < graph.memory.size()) {
    const RankMemory& memory = graph.memory[rank];
    device.static_parts = memory.parts;
    device.limit = memory.limit;
    allocation = memory.allocation();
  }
  Dynamic now_there;
  now_there.not_made = late_gradients(graph, rank_index);
  Dynamic at_peak = now_there;
  device.memory.clear();
  device.peak = allocation.with(now_there.sum());
  device.memory.push_back({Duration(0), device.peak});
  const auto lanes = changes_of_rank(graph, times, rank_index);
  Merge merge(lanes);
  while (const Change* change = merge.next()) {
    now_there.live += change->live;
    now_there.temporary += change->temporary;
    now_there.not_made -= change->gradients;
    const Bytes now = allocation.with(now_there.sum());
    const Duration at = to_duration(Ticks(change->at));
    if (now > device.peak) {
      device.peak = now;
      at_peak = now_there;
    }
    // A sample is the state after all changes of one instant; a higher state in between becomes a separate sample.
    MemorySample& last = device.memory.back();
    if (last.at == at && now >= last.allocated) {
      last.allocated = now;
    } else if (now != last.allocated) {
      device.memory.push_back({at, now});
    }
  }
  device.peak_parts = parts_of_peak(device.static_parts, at_peak, device.peak);
  device.reserved = device.peak - allocation.context;
  allocation.factor = rank < graph.memory.size() ? graph.memory[rank].rounding_factor : 1;
  device.allocated = std::min(allocation.with(at_peak.sum()) - allocation.context, device.reserved);
}

std::vector<DeviceTimeline> memory_of_ranks(const TaskGraph& graph, const TaskTimes& times) {
  std::vector<DeviceTimeline> devices(graph.ranks);
  for (int rank = 0; rank < graph.ranks; ++rank) add_memory(graph, times, rank, devices[rank]);
  return devices;
}

}  // namespace panpipe
