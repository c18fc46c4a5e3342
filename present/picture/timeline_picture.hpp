// Pictures of predicted and measured steps (schedule.svg in the folder of `-o DIR`).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "costmodel/timeline/timeline.hpp"
#include "present/picture/picture.hpp"

namespace panpipe {

// The thin lane that spans of this lane are drawn in; none for passes and launches.
std::optional<StripKind> strip_of(Lane lane);

// What the lanes of a drawn step are, in every drawing of one.
using StagesOfDevices = std::map<std::int32_t, std::set<std::int32_t>>;
StagesOfDevices stages_of_devices(const Timeline& timeline);       // those a device runs passes of: what its shades stand for
std::string text_of_stages(const std::set<std::int32_t>& stages);  // "stages 0, 4"
// Devices that copy no other, or that have stages; by pipeline rank.
std::vector<const DeviceTimeline*> drawn_devices(const Timeline& timeline, const StagesOfDevices& stages);

// `name` stands first in the title: the scenario's file, say. Devices that copy another's spans are left out.
Picture picture_of(const Timeline& timeline, const std::string& name);

}  // namespace panpipe
