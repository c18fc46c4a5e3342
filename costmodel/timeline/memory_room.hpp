// What a device needs of what a plan may fill, in words; and whether what is left means anything.
#pragma once

#include <string>

#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

// Mean error of predicted peaks: 4.7 % over 248 published runs (bigscience, ironcore, zb, and nanotron, which no number was
// found with); docs/models/memory.md, "Validation".
constexpr double kMemoryModelError = 0.05;

// Whether its peak is within what a plan may fill; also where that is not known.
bool fits(const DeviceTimeline& device);

// The fullest device that is no copy: furthest over its limit, or nearest to it. nullptr without devices.
const DeviceTimeline* fullest_device(const Timeline& timeline);

// "22.75 GiB of 23.69 GiB usable, 96 %"; where it does not fit, also what is too much. `limit` is positive.
std::string need_of_limit(Bytes need, Bytes limit);

// "0.20 GiB are left, less than the memory model's own error (3 %)"; empty where the difference is larger than that.
std::string doubtful_room(Bytes need, Bytes limit);

}  // namespace panpipe
