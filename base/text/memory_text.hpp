// Sizes of memory as people read them.
#pragma once

#include <string>

namespace panpipe {

// Two digits after the point, in the unit that fits: "22.75 GiB".
std::string memory_text(double bytes);

// The unit in which sizes that stand beside each other are shown.
struct MemoryScale {
  double factor = 1;  // bytes to the unit
  std::string unit;   // "GiB", "MiB", "KiB" or "B"

  std::string text(double bytes) const;  // one digit after the point: "22.8 GiB"
};

// The largest unit in which `largest_bytes` is 0.1 or more: one digit after the point says something.
MemoryScale memory_scale(double largest_bytes);

}  // namespace panpipe
