// Text about a device's memory need and limit, and whether the remaining room is meaningful.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

// Mean error of predicted peaks: 4.7 % over 248 published runs (bigscience, ironcore, zb, and nanotron, which was not used to
// find any number); docs/models/memory.md, "Validation".
constexpr double kMemoryModelError = 0.05;

// True if the device's peak is within its limit, or the limit is unknown.
bool fits(const DeviceTimeline& device);

// "surely", "probably", "hardly" or "not", of a need over its limit: twice the error of the memory model is left, once, less, or
// nothing.
std::string_view fits_how(double need_over_limit);
// The same of a predicted step; empty where the peak was measured, or no limit is known.
std::string_view fits_how(const Metrics& metrics, TimelineKind kind);

// The fullest device that is not a copy: furthest over its limit, or nearest to it. nullptr without devices.
const DeviceTimeline* fullest_device(const std::vector<DeviceTimeline>& devices);

// What a step's figures state of its devices' memory: bytes of the device with the largest peak, limit and share of the fullest.
struct StepMemory {
  double allocated_bytes = 0, reserved_bytes = 0, peak_bytes = 0;
  double limit_bytes = 0, share = 0;  // 0: the limit is not known
  bool fits = true;                   // all of them
};
StepMemory step_memory(const std::vector<DeviceTimeline>& devices);

// "22.75 GiB of 23.69 GiB usable, 96 %"; if it does not fit, also the excess. `limit` must be positive.
std::string need_of_limit(Bytes need, Bytes limit);

// "0.20 GiB are left, less than the memory model's own error (3 %)"; empty if the difference is larger than the error.
std::string doubtful_room(Bytes need, Bytes limit);

}  // namespace panpipe
