#include "costmodel/lowering/replayed_tensors.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace panpipe {

namespace {

// Six expandable segments of an eighth more than this have addresses below 2^53, which viewers in JavaScript hold exactly.
constexpr std::int64_t kAddresses = std::int64_t{1} << 50;

}  // namespace

ReplayedTensors::ReplayedTensors(bool expandable, std::int64_t capacity, AllocationRecorder* recorder)
    : allocator_(expandable, recorder ? std::min(capacity, kAddresses) : capacity), recorder_(recorder) {
  if (recorder_) allocator_.record(&recorder_->events());
}

void ReplayedTensors::take(Key key, double bytes, ReplayStream stream) {
  const auto whole = static_cast<std::int64_t>(std::ceil(bytes));
  if (whole <= 0 || live_.contains(key)) return;
  const std::int64_t before = allocator_.allocated();
  const std::optional<CachingAllocator::Address> address = allocator_.allocate(whole, static_cast<int>(stream));
  failed_ = failed_ || !address;
  if (!address) return;
  live_[key] = {*address, whole, allocator_.allocated() - before};
  wanted_ += whole;
  most_ = std::max(most_, wanted_);
  most_allocated_ = std::max(most_allocated_, allocator_.allocated() - late_);
  if (recorder_) recorder_->taken(key, whole);
}

void ReplayedTensors::give(Key key) {
  const auto found = live_.find(key);
  if (found == live_.end()) return;
  allocator_.free(found->second.address);
  wanted_ -= found->second.bytes;
  if (found->second.bytes == 0) late_ -= found->second.block;
  live_.erase(found);
  if (recorder_) recorder_->given();
}

void ReplayedTensors::give_late(Key key, Key late) {
  const auto found = live_.find(key);
  if (found == live_.end()) return;
  wanted_ -= std::exchange(found->second.bytes, 0);
  late_ += found->second.block;
  if (recorder_) recorder_->given_late(found->second.address);
  rename(key, late);
}

void ReplayedTensors::add_to(Key sum, double bytes, ReplayStream stream) {
  if (!holds(sum)) return take(sum, bytes, stream);
  const Key made = tensor_key(ReplaySpace::Scratch, tensor_of(sum));
  take(made, bytes, stream);
  give(made);
}

void ReplayedTensors::give_space(int space) {
  std::vector<Key> keys;
  for (const auto& [key, held] : live_)
    if (space_of(key) == space) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  for (const Key key : keys) give(key);
}

AllocatorOverhead ReplayedTensors::overhead() const {
  if (most_ == 0) return {};
  const auto most = static_cast<double>(most_);
  return {static_cast<double>(most_allocated_) / most, static_cast<double>(allocator_.peak_reserved()) / most};
}

void ReplayedTensors::finish(AllocationHistory& history) const {
  history.segments = allocator_.segments();
  history.asked_peak = most_;
  history.allocated_peak = most_allocated_;
  history.reserved_peak = allocator_.peak_reserved();
}

}  // namespace panpipe
