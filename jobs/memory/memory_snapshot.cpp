// torch.cuda.memory._dump_snapshot: segments with their blocks, and the history of allocations and frees where it was recorded.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.hpp"
#include "base/files/files_read.hpp"
#include "base/input/pickle.hpp"
#include "base/input/source_text.hpp"
#include "jobs/memory/frame_roles.hpp"
#include "jobs/memory/measured_memory.hpp"

namespace panpipe::jobs {
namespace {

constexpr std::size_t kMostVisited = std::size_t{1} << 23;       // blocks and events; a list may name one many times
constexpr std::int64_t kMostBlockBytes = std::int64_t{1} << 39;  // of a block or segment: their sums stay within 64 bits
constexpr std::size_t kShownSegments = 10, kShownHolders = 200;  // kept for answers

using Address = std::int64_t;

struct LiveBlock {
  std::int64_t bytes = 0;
  const PickleValue* frames = nullptr;  // null: made before the history began
};

struct Event {
  enum class Kind : std::uint8_t { Allocate, Free, SegmentTaken, SegmentGiven, OutOfMemory, Other };
  Kind kind{};
  Address address = 0;
  LiveBlock block;
};

class SnapshotReader {
 public:
  SnapshotReader(const Pickle& pickle, std::string name, std::optional<int> device)
      : pickle_(pickle), name_(std::move(name)), wanted_(device) {
    memory_.source = "snapshot";
  }

  MeasuredMemory read() {
    find_parts();
    choose_device();
    for (const PickleValue& segment : pickle_.items(*segments_))
      if (device_of(segment) == memory_.device) read_segment(segment);
    read_events();
    std::sort(memory_.largest.begin(), memory_.largest.end(),
              [](const LargeSegment& a, const LargeSegment& b) { return a.bytes > b.bytes; });
    if (memory_.largest.size() > kShownSegments) memory_.largest.resize(kShownSegments);
    follow_history();
    return std::move(memory_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw InputError(fmt::format("{}: {}", name_, what), "write it with torch.cuda.memory._dump_snapshot(FILE)",
                     code::kWrongType);
  }

  // A snapshot, or the segments alone: torch.cuda.memory_snapshot().
  void find_parts() {
    segments_ = pickle_.root().kind == PickleKind::List ? &pickle_.root() : pickle_.find(pickle_.root(), "segments");
    if (segments_ == nullptr || segments_->kind != PickleKind::List)
      refuse("this pickle is no memory snapshot: it has no 'segments'");
    traces_ = pickle_.find(pickle_.root(), "device_traces");
    if (const PickleValue* settings = pickle_.find(pickle_.root(), "allocator_settings"))
      if (const PickleValue* text = pickle_.find(*settings, "PYTORCH_CUDA_ALLOC_CONF")) memory_.settings = pickle_.text(*text);
  }

  std::int64_t number(const PickleValue& of, const char* key, std::int64_t otherwise) const {
    const PickleValue* value = pickle_.find(of, key);
    return value && value->kind == PickleKind::Integer ? value->integer : otherwise;
  }
  int device_of(const PickleValue& segment) const {
    return static_cast<int>(std::clamp<std::int64_t>(number(segment, "device", 0), -1, 1 << 20));
  }
  std::int64_t bytes(const PickleValue& of, const char* key, std::int64_t otherwise = -1) const {
    const std::int64_t value = number(of, key, otherwise);
    if (value < 0 || value > kMostBlockBytes) refuse(fmt::format("'{}' is {}; it should be bytes of a GPU", key, value));
    return value;
  }
  void visit() {
    if (++visited_ > kMostVisited) refuse(fmt::format("more than {} blocks and events; record fewer steps", kMostVisited));
  }

  void choose_device() {
    std::map<int, std::int64_t> reserved;
    for (const PickleValue& segment : pickle_.items(*segments_)) {
      visit();
      reserved[device_of(segment)] += bytes(segment, "total_size");
    }
    if (traces_ != nullptr)
      for (std::size_t d = 0; d < pickle_.items(*traces_).size(); ++d)
        if (!pickle_.items(pickle_.items(*traces_)[d]).empty()) reserved.try_emplace(static_cast<int>(d), 0);
    if (reserved.empty()) refuse("the snapshot is empty: nothing was allocated");
    const auto most =
        std::max_element(reserved.begin(), reserved.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    memory_.device = wanted_.value_or(most->first);
    if (!reserved.contains(memory_.device))
      throw InputError(fmt::format("{}: there is nothing of GPU {}", name_, memory_.device),
                       fmt::format("most memory is on GPU {}", most->first), code::kOutOfRange);
    memory_.allocated = memory_.requested = memory_.reserved = memory_.inactive_split = 0;
  }

  void read_segment(const PickleValue& segment) {
    LargeSegment of;
    of.bytes = bytes(segment, "total_size");
    of.stream = streams_.try_emplace(number(segment, "stream", 0), static_cast<int>(streams_.size())).first->second;
    const PickleValue* blocks = pickle_.find(segment, "blocks");
    Address address = number(segment, "address", 0);
    std::int64_t unused = 0;
    const std::size_t count = blocks ? pickle_.items(*blocks).size() : 0;
    for (std::size_t i = 0; i < count; ++i) {
      visit();
      const PickleValue& block = pickle_.items(*blocks)[i];
      const std::int64_t size = bytes(block, "size");
      const PickleValue* state = pickle_.find(block, "state");
      if (state == nullptr || pickle_.text(*state) == "inactive") {
        unused += size;
        of.largest_gap = std::max(of.largest_gap, size);
      } else {
        const std::int64_t asked = bytes(block, "requested_size", size);
        live_[number(block, "address", address)] = {asked, pickle_.find(block, "frames")};
        *memory_.requested += asked;
        of.allocated += size;
        ++of.blocks;
      }
      address = static_cast<Address>(static_cast<std::uint64_t>(address) + static_cast<std::uint64_t>(size));
    }
    *memory_.allocated += of.allocated;
    *memory_.reserved += of.bytes;
    if (count > 1) *memory_.inactive_split += unused;
    ++memory_.segments;
    memory_.largest.push_back(of);
  }

  static Event::Kind kind_of(std::string_view action) {
    if (action == "alloc") return Event::Kind::Allocate;
    if (action == "free_completed" || action == "free") return Event::Kind::Free;
    if (action == "segment_alloc" || action == "segment_map") return Event::Kind::SegmentTaken;
    if (action == "segment_free" || action == "segment_unmap") return Event::Kind::SegmentGiven;
    if (action == "oom") return Event::Kind::OutOfMemory;
    return Event::Kind::Other;
  }

  void read_events() {
    if (traces_ == nullptr || memory_.device < 0) return;
    const auto traces = pickle_.items(*traces_);
    if (static_cast<std::size_t>(memory_.device) >= traces.size()) return;
    for (const PickleValue& item : pickle_.items(traces[static_cast<std::size_t>(memory_.device)])) {
      visit();
      const PickleValue* action = pickle_.find(item, "action");
      if (action == nullptr) refuse("an event of 'device_traces' has no 'action'");
      Event event;
      event.kind = kind_of(pickle_.text(*action));
      ++memory_.events;
      if (event.kind == Event::Kind::Other) continue;
      if (event.kind == Event::Kind::OutOfMemory) {
        ++memory_.out_of_memory;
        continue;
      }
      event.address = number(item, "addr", 0);
      event.block = {bytes(item, "size"), pickle_.find(item, "frames")};
      has_frames_ |= event.kind == Event::Kind::Allocate && event.block.frames && !pickle_.items(*event.block.frames).empty();
      events_.push_back(event);
    }
  }

  // Back from what is there at the end to what was there at the beginning, and forth to the highest point.
  void follow_history() {
    if (events_.empty()) {
      sum_up(live_, has_frames_);
      return;
    }
    std::int64_t reserved = *memory_.reserved, most_reserved = reserved;
    std::unordered_map<Address, LiveBlock> live = live_;
    for (auto event = events_.rbegin(); event != events_.rend(); ++event) {
      if (event->kind == Event::Kind::Allocate) live.erase(event->address);
      if (event->kind == Event::Kind::Free) live[event->address] = {event->block.bytes, nullptr};
      if (event->kind == Event::Kind::SegmentTaken) reserved -= event->block.bytes;
      if (event->kind == Event::Kind::SegmentGiven) reserved += event->block.bytes;
      most_reserved = std::max(most_reserved, reserved);
    }
    std::int64_t sum = 0;
    for (auto& [address, block] : live) {
      sum += block.bytes;
      if (block.frames && pickle_.items(*block.frames).empty()) block.frames = nullptr;
    }
    const std::size_t highest = walk(live, sum, events_.size()).second;
    memory_.peak_requested = walk(live, sum, highest).first;
    memory_.peak_reserved = most_reserved;
    memory_.at_peak = true;
    // `live` is what there was at the beginning.
    for (std::size_t i = 0; i < highest; ++i) apply(live, events_[i]);
    sum_up(live, has_frames_);
  }

  static std::int64_t apply(std::unordered_map<Address, LiveBlock>& live, const Event& event) {
    if (event.kind == Event::Kind::Allocate) {
      LiveBlock& block = live[event.address];
      const std::int64_t before = block.bytes;
      block = event.block;
      return block.bytes - before;
    }
    if (event.kind != Event::Kind::Free) return 0;
    const auto found = live.find(event.address);
    if (found == live.end()) return 0;
    const std::int64_t bytes = found->second.bytes;
    live.erase(found);
    return -bytes;
  }

  // The most bytes of the first `count` events, and how many events lead there.
  std::pair<std::int64_t, std::size_t> walk(std::unordered_map<Address, LiveBlock> live, std::int64_t sum,
                                            std::size_t count) const {
    std::pair<std::int64_t, std::size_t> most{sum, 0};
    for (std::size_t i = 0; i < count; ++i) {
      sum += apply(live, events_[i]);
      if (sum > most.first) most = {sum, i + 1};
    }
    return most;
  }

  void sum_up(const std::unordered_map<Address, LiveBlock>& live, bool history) {
    std::map<std::pair<MemoryRole, std::string>, MemoryHolder> holders;
    std::unordered_map<std::int64_t, AllocatedAt> known;  // by list of frames
    const AllocatedAt before{MemoryRole::Unknown, "before the history began"};
    for (const auto& [address, block] : live) {
      const AllocatedAt* at = &before;
      if (block.frames != nullptr) {
        const auto [found, is_new] = known.try_emplace(block.frames->kind == PickleKind::List ? block.frames->integer : -1);
        if (is_new) found->second = allocated_at(pickle_, *block.frames, history);
        at = &found->second;
      }
      memory_.roles[panpipe::at(at->role)] += block.bytes;
      MemoryHolder& holder = holders[{at->role, at->place}];
      holder.role = at->role;
      holder.place = at->place;
      holder.bytes += block.bytes;
      ++holder.blocks;
    }
    for (auto& [key, holder] : holders) memory_.holders.push_back(std::move(holder));
    std::stable_sort(memory_.holders.begin(), memory_.holders.end(),
                     [](const MemoryHolder& a, const MemoryHolder& b) { return a.bytes > b.bytes; });
    if (memory_.holders.size() > kShownHolders) memory_.holders.resize(kShownHolders);
  }

  const Pickle& pickle_;
  const std::string name_;
  const std::optional<int> wanted_;
  MeasuredMemory memory_;
  const PickleValue *segments_ = nullptr, *traces_ = nullptr;
  std::unordered_map<std::int64_t, int> streams_;
  std::unordered_map<Address, LiveBlock> live_;  // at the end
  std::vector<Event> events_;
  std::size_t visited_ = 0;
  bool has_frames_ = false;
};

}  // namespace

MeasuredMemory parse_measured_memory(std::string bytes, const std::string& name, std::optional<int> device) {
  if (bytes.empty() || static_cast<unsigned char>(bytes.front()) != 0x80) return parse_memory_text(bytes, name, device);
  const Pickle pickle(std::move(bytes), name);
  return SnapshotReader(pickle, name, device).read();
}

MeasuredMemory read_measured_memory(const std::string& path, std::optional<int> device) {
  return parse_measured_memory(read_text_file(path, Pickle::kLargestFile), path, device);
}

}  // namespace panpipe::jobs
