// PYTORCH_CUDA_ALLOC_CONF: the settings of PyTorch's caching allocator that change what it reserves, with their defaults in
// release 2.11 (c10/core/AllocatorConfig.h). Sizes are bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace panpipe {

struct AllocatorSettings {
  static constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();
  static constexpr std::int64_t kSegment = std::int64_t{20} << 20;
  // For sizes from 1 MiB, 2 MiB, ... 32 GiB on; the first also for smaller ones.
  static constexpr std::size_t kIntervals = 16;

  bool expandable_segments = false;
  std::int64_t max_split_size = kUnlimited;        // blocks from this size on are not split
  std::int64_t max_unsplit_rest = kSegment;        // what such a block may be larger than what is asked for
  std::int64_t large_segment_size = kSegment;      // for blocks from 1 to 10 MiB; the pages of expandable segments
  double garbage_collection_threshold = 0;         // share of the allowed memory above which unused segments are given back
  std::optional<double> per_process_fraction;      // of the card; without it no garbage is collected
  std::array<int, kIntervals> roundup_parts = {};  // sizes are rounded up to a power of two divided by this; 0, 1: to 512 B

  bool operator==(const AllocatorSettings&) const = default;
};

// Of the variable's text, as in "expandable_segments:True,roundup_power2_divisions:[256:2,>:4]". Settings of pinned memory, of
// graphs and of how allocations wait are accepted and change nothing here. Throws InputError.
AllocatorSettings parse_allocator_settings(std::string_view text);

}  // namespace panpipe
