#include "costmodel/lowering/replayed_tensors.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace panpipe {

ReplayedTensors::ReplayedTensors(const AllocatorSettings& settings)
    : allocator_(settings, std::numeric_limits<std::int64_t>::max() / 2) {}

void ReplayedTensors::take(Key key, double bytes, ReplayStream stream) {
  const auto whole = static_cast<std::int64_t>(std::ceil(bytes));
  if (whole <= 0 || live_.contains(key)) return;
  const std::int64_t before = allocator_.allocated();
  live_[key] = {*allocator_.allocate(whole, static_cast<int>(stream)), whole, allocator_.allocated() - before};
  wanted_ += whole;
  most_ = std::max(most_, wanted_);
  most_allocated_ = std::max(most_allocated_, allocator_.allocated() - late_);
}

void ReplayedTensors::give(Key key) {
  const auto found = live_.find(key);
  if (found == live_.end()) return;
  allocator_.free(found->second.address);
  wanted_ -= found->second.bytes;
  if (found->second.bytes == 0) late_ -= found->second.block;
  live_.erase(found);
}

void ReplayedTensors::give_late(Key key, Key late) {
  const auto found = live_.find(key);
  if (found == live_.end()) return;
  wanted_ -= std::exchange(found->second.bytes, 0);
  late_ += found->second.block;
  rename(key, late);
}

void ReplayedTensors::add_to(Key sum, double bytes, ReplayStream stream) {
  if (!holds(sum)) return take(sum, bytes, stream);
  const Key made = key(ReplaySpace::Scratch, tensor_of(sum));
  take(made, bytes, stream);
  give(made);
}

void ReplayedTensors::give_in_order(std::vector<Key> keys) {
  std::sort(keys.begin(), keys.end());
  for (const Key key : keys) give(key);
}

AllocatorOverhead ReplayedTensors::overhead() const {
  if (most_ == 0) return {};
  const auto most = static_cast<double>(most_);
  return {static_cast<double>(most_allocated_) / most, static_cast<double>(allocator_.peak_reserved()) / most};
}

}  // namespace panpipe
