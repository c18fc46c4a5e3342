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

// The strip in which spans of this lane are drawn; nullopt for passes and launches.
std::optional<StripKind> strip_of(Lane lane);

// The stages of each drawn lane, for every drawing of a step.
using StagesOfDevices = std::map<std::int32_t, std::set<std::int32_t>>;
StagesOfDevices stages_of_devices(const Timeline& timeline);  // the stages whose passes a device runs, which its shades represent
std::string text_of_stages(const std::set<std::int32_t>& stages);  // "stages 0, 4"
// Devices that are not copies, or that have stages; sorted by pipeline rank.
std::vector<const DeviceTimeline*> drawn_devices(const Timeline& timeline, const StagesOfDevices& stages);

// `name` starts the title, for example the scenario's file. Devices that copy another's spans are left out.
Picture picture_of(const Timeline& timeline, const std::string& name);

}  // namespace panpipe
