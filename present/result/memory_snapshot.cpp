#include "present/result/memory_snapshot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/index.hpp"
#include "base/text/pickle_writer.hpp"
#include "base/version.hpp"

namespace panpipe::present {
namespace {

constexpr double kSame = 1e-6;  // scales nearer to 1 leave sizes as they are

class SnapshotWriter {
 public:
  explicit SnapshotWriter(const AllocationHistory& history)
      : history_(history), scale_(std::abs(history.scale - 1) < kSame ? 1 : history.scale) {
    for (const RecordedEvent& event : history.events)
      if (event.of.action == AllocatorAction::Allocate) last_[event.of.address] = &event;
  }

  std::string write() {
    out_.dict();
    write_segments();
    write_trace();
    write_settings();
    write_ours();
    return out_.end().finish();
  }

 private:
  // Multiplies addresses, so that blocks stay next to each other.
  std::int64_t scaled(std::int64_t address) const {
    return scale_ == 1 ? address : std::llround(static_cast<double>(address) * scale_);
  }
  std::int64_t scaled(std::int64_t address, std::int64_t size) const { return scaled(address + size) - scaled(address); }
  std::int64_t asked_of(const RecordedEvent& event) const {
    return std::min(scaled(event.asked), scaled(event.of.address, event.of.size));
  }

  void write_segments() {
    out_.text("segments").list();
    for (const AllocatorSegment& segment : history_.segments) write_segment(segment);
    out_.end();
  }

  void write_segment(const AllocatorSegment& segment) {
    std::int64_t allocated = 0, asked = 0;
    for (const AllocatorBlock& block : segment.blocks) {
      if (!block.allocated) continue;
      allocated += scaled(block.address, block.size);
      asked += asked_of(*last_.at(block.address));
    }
    out_.dict().field("device", 0).field("address", scaled(segment.address));
    out_.field("total_size", scaled(segment.address, segment.size));
    out_.field("allocated_size", allocated).field("active_size", allocated).field("requested_size", asked);
    out_.field("stream", segment.stream).field("segment_type", segment.small ? "small" : "large");
    out_.text("segment_pool_id").pair(0, 0).text("is_expandable").boolean(segment.expandable);
    out_.text("frames").list().end();
    out_.text("blocks").list();
    for (const AllocatorBlock& block : segment.blocks) {
      const RecordedEvent* const of = block.allocated ? last_.at(block.address) : nullptr;
      out_.dict().field("address", scaled(block.address)).field("size", scaled(block.address, block.size));
      out_.field("requested_size", of ? asked_of(*of) : 0).field("state", of ? "active_allocated" : "inactive");
      write_frames(of ? of->label : -1);
      out_.end();
    }
    out_.end().end();
  }

  // From the innermost on, as PyTorch orders them: the tensor, the pass, the use.
  void write_frames(int label) {
    out_.text("frames");
    if (label < 0) {
      out_.list().end();
      return;
    }
    const auto found = frames_.find(label);
    if (found != frames_.end()) {
      out_.again(found->second);
      return;
    }
    const AllocationLabel& of = history_.labels[at(label)];
    const auto frame = [&](std::string_view file, std::string_view name) {
      out_.dict().field("filename", file).field("line", 0).field("name", name).end();
    };
    out_.list();
    frame(of.where.empty() ? "whole rank" : of.where, of.what);
    frame(fmt::format("step {}", of.step), of.when);
    frame("panpipe", panpipe::name_of(of.use));
    out_.end();
    frames_[label] = out_.remember();
  }

  void write_event(std::string_view action, const RecordedEvent& event, std::string_view category) {
    out_.dict().field("action", action).field("addr", scaled(event.of.address));
    out_.field("size", scaled(event.of.address, event.of.size));
    out_.field("stream", event.of.stream).field("time_us", time_++).field("category", category);
    write_frames(event.label);
    out_.end();
  }

  void write_trace() {
    out_.text("device_traces").list().list();
    for (const RecordedEvent& event : history_.events) {
      // A viewer that knows categories wants one of this name.
      constexpr std::string_view kOfSegments = "unknown";
      const std::string_view use = event.label < 0 ? kOfSegments : panpipe::name_of(history_.labels[at(event.label)].use);
      switch (event.of.action) {
        case AllocatorAction::Allocate:
          write_event("alloc", event, use);
          break;
        case AllocatorAction::RequestFree:
          requested_.insert(event.of.address);
          write_event("free_requested", event, use);
          break;
        case AllocatorAction::Free:
          if (requested_.erase(event.of.address) == 0) write_event("free_requested", event, use);
          write_event("free_completed", event, use);
          break;
        case AllocatorAction::TakeSegment:
          write_event("segment_alloc", event, kOfSegments);
          break;
        case AllocatorAction::GiveSegment:
          write_event("segment_free", event, kOfSegments);
          break;
        case AllocatorAction::MapPages:
          write_event("segment_map", event, kOfSegments);
          break;
        case AllocatorAction::UnmapPages:
          write_event("segment_unmap", event, kOfSegments);
          break;
      }
    }
    out_.end().end();
  }

  // The defaults of PyTorch 2.11, but for expandable segments.
  void write_settings() {
    const bool expandable = history_.expandable_segments;
    out_.text("allocator_settings").dict();
    out_.field("PYTORCH_CUDA_ALLOC_CONF", expandable ? "expandable_segments:True" : "").field("max_split_size", -1);
    out_.text("garbage_collection_threshold").real(0).text("expandable_segments").boolean(expandable);
    out_.field("pinned_num_register_threads", 1).text("release_lock_on_cudamalloc").boolean(false);
    out_.text("pinned_use_cuda_host_register").boolean(false).text("roundup_power2_divisions").dict();
    for (std::int64_t mebibytes = 1; mebibytes <= std::int64_t{1} << 15; mebibytes *= 2) out_.field(std::to_string(mebibytes), 0);
    out_.end().end();
  }

  void write_ours() {
    out_.text("panpipe").dict().field("version", kVersion).field("rank", history_.rank);
    out_.text("scale").real(scale_).field("requested_peak", history_.asked_peak).field("allocated_peak", history_.allocated_peak);
    out_.field("reserved_peak", history_.reserved_peak).end();
  }

  const AllocationHistory& history_;
  const double scale_;
  PickleWriter out_;
  std::unordered_map<std::int64_t, const RecordedEvent*> last_;  // allocation at an address
  std::unordered_map<int, std::uint32_t> frames_;                // of a label, as the writer remembers them
  std::unordered_set<std::int64_t> requested_;                   // addresses of blocks that another stream still uses
  std::int64_t time_ = 0;
};

}  // namespace

std::string to_memory_snapshot(const AllocationHistory& history) { return SnapshotWriter(history).write(); }

}  // namespace panpipe::present
