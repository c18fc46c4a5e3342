#include "exec/engine/measure/device_memory.hpp"

#include <c10/core/CachingDeviceAllocator.h>
#include <fmt/format.h>

#include "base/error.hpp"
#include "base/index.hpp"

namespace panpipe::exec {
namespace {

c10::DeviceAllocator* allocator_of(c10::Device device) {
  return dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
}

// The sum over all pools.
c10::CachingAllocator::Stat sum_of(const c10::CachingAllocator::StatArray& bytes) {
  return bytes[at(c10::CachingAllocator::StatType::AGGREGATE)];
}

c10::CachingAllocator::Stat statistics(c10::Device device, DeviceMemory::Count count) {
  const auto stats = allocator_of(device)->getDeviceStats(device.index());
  return sum_of(count == DeviceMemory::Count::Allocated ? stats.allocated_bytes : stats.requested_bytes);
}

}  // namespace

DeviceMemory::DeviceMemory(c10::Device device, MemoryAccount& account, Count count)
    : device_(device), account_(account), count_(count) {
  if (!device_.is_cpu() && allocator_of(device_) == nullptr)
    throw MachineError(fmt::format("the memory of {} cannot be measured: its allocator keeps no count", device_.str()));
}

std::int64_t DeviceMemory::live() const { return device_.is_cpu() ? account_.live() : statistics(device_, count_).current; }

void DeviceMemory::begin(std::size_t samples) {
  if (device_.is_cpu()) return account_.begin(samples);
  allocator_of(device_)->resetPeakStats(device_.index());
  before_ = live();
}

MemoryAccount::Trace DeviceMemory::end() {
  if (device_.is_cpu()) return account_.end();
  MemoryAccount::Trace trace;
  trace.before = before_;
  trace.peak = statistics(device_, count_).peak;
  trace.reserved = sum_of(allocator_of(device_)->getDeviceStats(device_.index()).reserved_bytes).peak;
  return trace;
}

DeviceBytes device_bytes(c10::Device device) {
  try {
    if (auto* allocator = allocator_of(device)) {
      const auto [free, all] = allocator->getMemoryInfo(device.index());
      return {static_cast<std::int64_t>(free), static_cast<std::int64_t>(all)};
    }
  } catch (const c10::Error&) {  // an allocator without statistics
  }
  return {};
}

}  // namespace panpipe::exec
