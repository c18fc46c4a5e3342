// The tensors of a rank by name, in PyTorch's caching allocator. Internal to this folder.
#pragma once

#include <cstdint>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "costmodel/lowering/allocation_recorder.hpp"
#include "costmodel/lowering/allocator_replay.hpp"
#include "costmodel/lowering/replay_keys.hpp"
#include "costmodel/memory/caching_allocator.hpp"

namespace panpipe {

class ReplayedTensors {
 public:
  using Key = TensorKey;

  static constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max() / 2;

  // `capacity`: bytes of the card that segments can take. `recorder` may be null.
  ReplayedTensors(bool expandable, std::int64_t capacity, AllocationRecorder* recorder);

  // Nothing happens where the tensor is there, or has no bytes; or, giving it back, where it is not.
  void take(Key key, double bytes, ReplayStream stream = ReplayStream::Compute);
  void give(Key key);
  // PyTorch counts it as free, but another stream may still use it: its block is taken until `late` is given back.
  void give_late(Key key, Key late);
  // The first is the sum; others are made, and gone when they have been added.
  void add_to(Key sum, double bytes, ReplayStream stream = ReplayStream::Compute);
  // All of a space, in the order of their keys.
  void give_space(int space);

  bool holds(Key key) const { return live_.contains(key); }
  std::int64_t bytes(Key key) const {
    const auto found = live_.find(key);
    return found == live_.end() ? 0 : found->second.bytes;
  }
  void rename(Key from, Key to) {
    if (const auto found = live_.extract(from)) live_[to] = found.mapped();
  }

  bool failed() const { return failed_; }  // a tensor had no room, although unused segments were given back
  std::int64_t reserved() const { return allocator_.peak_reserved(); }
  AllocatorOverhead overhead() const;
  // What the recorder does not know itself.
  void finish(AllocationHistory& history) const;

 private:
  struct Held {
    CachingAllocator::Address address = 0;
    std::int64_t bytes = 0, block = 0;
  };

  CachingAllocator allocator_;
  AllocationRecorder* const recorder_;
  std::unordered_map<Key, Held> live_;
  bool failed_ = false;
  std::int64_t wanted_ = 0, most_ = 0, late_ = 0, most_allocated_ = 0;
};

}  // namespace panpipe
