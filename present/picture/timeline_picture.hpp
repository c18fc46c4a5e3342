// Pictures of predicted and measured steps (schedule.svg in the folder of `-o DIR`).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "costmodel/timeline/timeline.hpp"
#include "present/picture/picture.hpp"

namespace panpipe::present {

// The strip in which spans of this lane are drawn; nullopt for passes and launches.
std::optional<StripKind> strip_of(Lane lane);

// A lane of a step, in every drawing of it: a device that is no copy of another, or that has passes of its own.
struct DrawnDevice {
  const DeviceTimeline* device = nullptr;
  std::set<std::int32_t> stages;  // whose passes it runs, which its shades represent
  std::string text() const;       // "stages 0, 4"
  int chunk_of(std::int32_t stage) const;
};
// Sorted by pipeline rank. Two ranks may share a device: it is drawn once.
std::vector<DrawnDevice> drawn_devices(const Timeline& timeline);

// A drawing of several steps puts the lanes of one pipeline rank under each other. Devices cannot be compared, because two plans
// place their ranks on devices in two ways. Where a rank has several lanes, the first of each step goes with the first.
struct RankRow {
  std::int32_t rank = 0;
  std::vector<std::optional<DrawnDevice>> of;  // of each step; nullopt: it has no such lane
};
std::vector<RankRow> rows_by_rank(const std::vector<const Timeline*>& steps);

// `name` starts the title, for example the scenario's file. Devices that copy another's spans are left out.
Picture picture_of(const Timeline& timeline, const std::string& name);
// The picture of several steps on one axis of time, without a title: `names` are next to their lanes.
Picture picture_of(const std::vector<const Timeline*>& steps, const std::vector<std::string>& names);

}  // namespace panpipe::present
