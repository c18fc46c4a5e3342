#include "costmodel/timeline/memory_room.hpp"

#include <cmath>

#include <fmt/format.h>

#include "base/text/memory_text.hpp"

namespace panpipe {
namespace {

double number(Bytes bytes) { return static_cast<double>(bytes.base()); }

}  // namespace

bool fits(const DeviceTimeline& device) { return device.limit == Bytes(0) || device.peak <= device.limit; }

std::string_view fits_how(double need_over_limit) {
  const double left = 1 / need_over_limit - 1;
  if (left < 0) return "not";
  return left < kMemoryModelError ? "hardly" : left < 2 * kMemoryModelError ? "probably" : "surely";
}

std::string_view fits_how(const Metrics& metrics, TimelineKind kind) {
  return kind != TimelineKind::Measured && metrics.memory_limit_bytes > 0 ? fits_how(metrics.memory_share) : std::string_view();
}

const DeviceTimeline* fullest_device(const std::vector<DeviceTimeline>& devices) {
  const DeviceTimeline* worst = nullptr;
  const auto fill = [](const DeviceTimeline& d) { return d.limit > Bytes(0) ? d.peak / d.limit : number(d.peak) * 1e-18; };
  // A copy only where it has less room than the device it copies, whose parts of the peak are known.
  for (const bool copies : {false, true})
    for (const DeviceTimeline& device : devices)
      if ((device.same_as >= 0) == copies && (worst == nullptr || fill(device) > fill(*worst))) worst = &device;
  return worst;
}

StepMemory step_memory(const std::vector<DeviceTimeline>& devices) {
  StepMemory memory;
  for (const DeviceTimeline& device : devices) {
    if (const double peak = number(device.peak); peak >= memory.peak_bytes) {
      memory.peak_bytes = peak;
      memory.reserved_bytes = number(device.reserved);
      memory.allocated_bytes = number(device.allocated);
    }
    memory.fits = memory.fits && fits(device);
  }
  if (const DeviceTimeline* fullest = fullest_device(devices); fullest != nullptr && fullest->limit > Bytes(0)) {
    memory.limit_bytes = number(fullest->limit);
    memory.share = fullest->peak / fullest->limit;
  }
  return memory;
}

std::string need_of_limit(Bytes need, Bytes limit) {
  const double percent = 100 * (need / limit);
  // Never 100 % of what does not fit, and of what fits only when nothing is left.
  std::string text = fmt::format("{} of {} usable, {:.0f} %", memory_text(number(need)), memory_text(number(limit)),
                                 need > limit ? std::ceil(percent) : std::floor(percent));
  if (need > limit) text += fmt::format(", {} too much", memory_text(number(need - limit)));
  return text;
}

std::string doubtful_room(Bytes need, Bytes limit) {
  const double left = number(limit - need);
  if (std::abs(left) >= kMemoryModelError * number(need)) return "";
  return fmt::format("{} {}, less than the memory model's own error ({:.0f} %)", memory_text(std::abs(left)),
                     left < 0 ? "are too much" : "are left", 100 * kMemoryModelError);
}

}  // namespace panpipe
