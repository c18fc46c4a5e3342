// What a caching allocator did and what it holds, as PyTorch's memory snapshots state it. Sizes and addresses are bytes.
#pragma once

#include <cstdint>
#include <vector>

namespace panpipe {

// RequestFree: the program gave a block back that another stream still uses; Free comes later.
enum class AllocatorAction : std::uint8_t { Allocate, RequestFree, Free, TakeSegment, GiveSegment, MapPages, UnmapPages };

struct AllocatorEvent {
  AllocatorAction action{};
  std::int64_t address = 0, size = 0;  // size: of the block or segment, after rounding
  int stream = 0;
};

struct AllocatorBlock {
  std::int64_t address = 0, size = 0;
  bool allocated = false;
};

// A segment of the card, or the part of an expandable one that is mapped without a gap.
struct AllocatorSegment {
  std::int64_t address = 0, size = 0;
  int stream = 0;
  bool small = false, expandable = false;
  std::vector<AllocatorBlock> blocks;  // without gaps, ascending
};

}  // namespace panpipe
