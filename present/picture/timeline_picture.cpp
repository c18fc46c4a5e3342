#include "present/picture/timeline_picture.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/text/memory_text.hpp"
#include "base/text/percent.hpp"
#include "present/picture/picture_layout.hpp"

namespace panpipe {
namespace {

class LaneMaker {
 public:
  LaneMaker(PictureLane& lane, const std::set<std::int32_t>& stages, const TimeScale& scale)
      : lane_(lane), stages_(stages), scale_(scale) {}

  void add(const Span& span) {
    const double start = span.start.base() * scale_.factor, end = span.end.base() * scale_.factor;
    const std::string what = span.label.empty() ? to_text(span.action) : fmt::format("{} {}", to_text(span.action), span.label);
    std::string hint = fmt::format("{}: {:.6g} to {:.6g} {}", what, start, end, scale_.unit);
    if (span.bytes > Bytes(0)) hint += fmt::format(", {}", memory_text(static_cast<double>(span.bytes.base())));
    if (span.lane == Lane::Compute) return add_box(span, start, end, std::move(hint));
    if (const auto kind = strip_of(span.lane)) lane_.stripes.push_back({*kind, start, end, std::move(hint)});
  }

 private:
  // Members of a group stand one behind the other; its first says how many there are.
  void add_box(const Span& span, double start, double end, std::string hint) {
    if (span.action.group_size > 1) {
      ++group_;
      left_in_group_ = span.action.group_size;
    }
    const bool grouped = span.action.group != GroupKind::None && left_in_group_ > 0;
    if (grouped) --left_in_group_;
    const auto chunk = std::distance(stages_.begin(), stages_.find(span.action.stage));
    std::string text = span.action.microbatch >= 0 ? std::to_string(span.action.microbatch) : std::string();
    if (span.action.split >= 0) text += fmt::format(".{}", span.action.split);
    lane_.boxes.push_back({start, end, span.action.kind, span.action.is_compute() ? static_cast<int>(chunk) : 0, std::move(text),
                           std::move(hint), grouped ? group_ : -1});
  }

  PictureLane& lane_;
  const std::set<std::int32_t>& stages_;
  TimeScale scale_;
  int group_ = -1, left_in_group_ = 0;
};

PictureLane lane_of(const DeviceTimeline& device, const std::set<std::int32_t>& stages, const TimeScale& scale) {
  PictureLane lane;
  lane.name = fmt::format("rank {}", device.rank);
  lane.detail = text_of_stages(stages);
  for (const MemorySample& sample : device.memory)
    lane.memory.emplace_back(sample.at.base() * scale.factor, static_cast<double>(sample.allocated.base()));
  lane.peak = static_cast<double>(device.peak.base());
  lane.peak_text = memory_text(lane.peak);
  return lane;
}

}  // namespace

std::optional<StripKind> strip_of(Lane lane) {
  switch (lane) {
    case Lane::Tensor:
      return StripKind::Tensor;
    case Lane::Send:
      return StripKind::Send;
    case Lane::Receive:
      return StripKind::Receive;
    case Lane::Data:
      return StripKind::Data;
    case Lane::Copy:
      return StripKind::Copy;
    default:
      return std::nullopt;
  }
}

StagesOfDevices stages_of_devices(const Timeline& timeline) {
  StagesOfDevices stages;
  for (const Span& span : timeline.spans)
    if (span.lane == Lane::Compute && span.action.is_compute()) stages[span.device].insert(span.action.stage);
  return stages;
}

std::string text_of_stages(const std::set<std::int32_t>& stages) {
  if (stages.empty()) return "";
  return fmt::format("{} {}", stages.size() == 1 ? "stage" : "stages", fmt::join(stages, ", "));
}

std::vector<const DeviceTimeline*> drawn_devices(const Timeline& timeline, const StagesOfDevices& stages) {
  std::vector<const DeviceTimeline*> devices;
  for (const DeviceTimeline& device : timeline.devices)
    if (device.same_as < 0 || stages.contains(device.device)) devices.push_back(&device);
  std::stable_sort(devices.begin(), devices.end(), [](const auto* a, const auto* b) { return a->rank < b->rank; });
  return devices;
}

Picture picture_of(const Timeline& timeline, const std::string& name) {
  const Metrics figures = metrics(timeline);
  const TimeScale scale = time_scale(timeline.step_time.base());
  Picture picture;
  picture.title = fmt::format("{}: {}", name, name_of(timeline.kind));
  picture.subtitle =
      fmt::format("step {:.4g} {}; bubble {} of the step, {} of the devices' spans; peak memory {}{}",
                  figures.step_time_s * scale.factor, scale.unit, percent(figures.bubble_step), percent(figures.bubble_span),
                  memory_text(figures.peak_memory_bytes), figures.fits ? "" : ", more than a device may use");
  picture.time_unit = scale.unit;
  picture.memory_name = "memory allocated";
  const StagesOfDevices stages = stages_of_devices(timeline);
  static const std::set<std::int32_t> kNone;
  const auto stages_on = [&](std::int32_t device) -> const std::set<std::int32_t>& {
    const auto own = stages.find(device);
    return own == stages.end() ? kNone : own->second;
  };
  std::map<std::int32_t, std::size_t> lane_of_device;  // two ranks may share a device
  for (const DeviceTimeline* device : drawn_devices(timeline, stages)) {
    if (!lane_of_device.emplace(device->device, picture.lanes.size()).second) continue;
    const auto& held = stages_on(device->device);
    picture.lanes.push_back(lane_of(*device, held, scale));
    picture.chunks = std::max(picture.chunks, static_cast<int>(held.size()));
    picture.memory_limit = std::max(picture.memory_limit, static_cast<double>(device->limit.base()));
  }
  std::map<std::int32_t, LaneMaker> makers;
  for (const auto& [device, lane] : lane_of_device)
    makers.emplace(device, LaneMaker(picture.lanes[lane], stages_on(device), scale));
  for (const Span& span : timeline.spans) {
    picture.end = std::max(picture.end, span.end.base() * scale.factor);
    if (const auto maker = makers.find(span.device); maker != makers.end()) maker->second.add(span);
  }
  return picture;
}

}  // namespace panpipe
