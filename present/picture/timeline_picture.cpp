#include "present/picture/timeline_picture.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/text/memory_text.hpp"
#include "base/text/percent.hpp"
#include "costmodel/timeline/device_sums.hpp"
#include "present/picture/picture_layout.hpp"

namespace panpipe::present {
namespace {

class LaneMaker {
 public:
  LaneMaker(PictureLane& lane, const DrawnDevice& device, const TimeScale& scale) : lane_(lane), device_(device), scale_(scale) {}

  void add(const Span& span) {
    const PictureSpan drawn{span.start.base() * scale_.factor, span.end.base() * scale_.factor, span.action, span.label};
    if (span.lane == Lane::Compute) return add_box(span, drawn);
    if (const auto kind = strip_of(counted_lane(span.lane, span.action.kind)))
      lane_.stripes.push_back({drawn, *kind, static_cast<double>(span.bytes.base())});
  }

 private:
  // Members of a group follow one another; the first states how many there are.
  void add_box(const Span& span, const PictureSpan& drawn) {
    if (span.action.group_size > 1) {
      ++group_;
      left_in_group_ = span.action.group_size;
    }
    const bool grouped = span.action.group != GroupKind::None && left_in_group_ > 0;
    if (grouped) --left_in_group_;
    lane_.boxes.push_back({drawn, span.action.is_compute() ? device_.chunk_of(span.action.stage) : 0, grouped ? group_ : -1});
  }

  PictureLane& lane_;
  const DrawnDevice& device_;
  TimeScale scale_;
  int group_ = -1, left_in_group_ = 0;
};

PictureLane lane_of(const DrawnDevice& drawn, const TimeScale& scale) {
  const DeviceTimeline& device = *drawn.device;
  PictureLane lane;
  lane.name = fmt::format("rank {}", device.rank);
  lane.detail = drawn.text();
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
    case Lane::Vocabulary:
      return StripKind::Data;
    case Lane::Copy:
      return StripKind::Copy;
    default:
      return std::nullopt;
  }
}

std::string DrawnDevice::text() const {
  if (stages.empty()) return "";
  return fmt::format("{} {}", stages.size() == 1 ? "stage" : "stages", fmt::join(stages, ", "));
}

int DrawnDevice::chunk_of(std::int32_t stage) const {
  return static_cast<int>(std::distance(stages.begin(), stages.find(stage)));
}

std::vector<DrawnDevice> drawn_devices(const Timeline& timeline) {
  std::map<std::int32_t, std::set<std::int32_t>> stages;
  for (const Span& span : timeline.spans)
    if (span.lane == Lane::Compute && span.action.is_compute()) stages[span.device].insert(span.action.stage);
  std::vector<DrawnDevice> drawn;
  std::set<std::int32_t> seen;
  for (const DeviceTimeline& device : timeline.devices) {
    const auto own = stages.find(device.device);
    if ((device.same_as >= 0 && own == stages.end()) || !seen.insert(device.device).second) continue;
    drawn.push_back({&device, own == stages.end() ? std::set<std::int32_t>() : own->second});
  }
  std::stable_sort(drawn.begin(), drawn.end(), [](const auto& a, const auto& b) { return a.device->rank < b.device->rank; });
  return drawn;
}

std::vector<RankRow> rows_by_rank(const std::vector<const Timeline*>& steps) {
  std::map<std::pair<std::int32_t, int>, RankRow> rows;  // by rank, and by the number of the lane among its rank's
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::map<std::int32_t, int> lanes;
    for (DrawnDevice& drawn : drawn_devices(*steps[i])) {
      const std::int32_t rank = drawn.device->rank;
      RankRow& row = rows[{rank, lanes[rank]++}];
      row.rank = rank;
      row.of.resize(steps.size());
      row.of[i] = std::move(drawn);
    }
  }
  std::vector<RankRow> sorted;
  for (auto& [key, row] : rows) sorted.push_back(std::move(row));
  return sorted;
}

Picture picture_of(const std::vector<const Timeline*>& steps, const std::vector<std::string>& names) {
  double longest = 0;
  for (const Timeline* step : steps) longest = std::max(longest, step->step_time.base());
  const TimeScale scale = time_scale(longest);
  Picture picture;
  picture.time_unit = scale.unit;
  picture.memory_name = "memory allocated";
  const std::vector<RankRow> rows = rows_by_rank(steps);
  picture.lanes.reserve(rows.size() * steps.size());  // the makers point to them
  std::map<std::pair<std::size_t, std::int32_t>, LaneMaker> makers;
  for (const RankRow& row : rows)
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (!row.of[i]) continue;
      const DrawnDevice& drawn = *row.of[i];
      PictureLane& lane = picture.lanes.emplace_back(lane_of(drawn, scale));
      if (steps.size() > 1) {
        lane.step = names[i];
        lane.detail = names[i] + (lane.detail.empty() ? "" : ", ") + lane.detail;
      }
      picture.chunks = std::max(picture.chunks, static_cast<int>(drawn.stages.size()));
      picture.memory_limit = std::max(picture.memory_limit, static_cast<double>(drawn.device->limit.base()));
      makers.emplace(std::pair(i, drawn.device->device), LaneMaker(lane, drawn, scale));
    }
  for (std::size_t i = 0; i < steps.size(); ++i)
    for (const Span& span : steps[i]->spans) {
      picture.end = std::max(picture.end, span.end.base() * scale.factor);
      if (const auto maker = makers.find({i, span.device}); maker != makers.end()) maker->second.add(span);
    }
  return picture;
}

Picture picture_of(const Timeline& timeline, const std::string& name) {
  Picture picture = picture_of({&timeline}, {name});
  const Metrics figures = metrics(timeline);
  const TimeScale scale = time_scale(timeline.step_time.base());
  picture.title = fmt::format("{}: {}", name, name_of(timeline.kind));
  picture.subtitle =
      fmt::format("step {:.4g} {}; bubble {} of the step, {} of the devices' spans; peak memory {}{}",
                  figures.step_time_s * scale.factor, scale.unit, percent(figures.bubble_step), percent(figures.bubble_span),
                  memory_text(figures.peak_memory_bytes), figures.fits ? "" : ", more than a device may use");
  return picture;
}

}  // namespace panpipe::present
