// Memory sizes for people.
#pragma once

#include <string>

namespace panpipe {

// Two decimals in the unit that fits: "22.75 GiB".
std::string memory_text(double bytes);

// A common unit for sizes shown next to each other.
struct MemoryScale {
  double factor = 1;  // bytes per unit
  std::string unit;   // "GiB", "MiB", "KiB" or "B"

  std::string text(double bytes) const;  // one decimal: "22.8 GiB"
};

// The largest unit in which `largest_bytes` is at least 0.1, so that one decimal is meaningful.
MemoryScale memory_scale(double largest_bytes);

}  // namespace panpipe
