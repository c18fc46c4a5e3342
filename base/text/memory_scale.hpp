// The unit in which sizes of memory that stand beside each other are shown.
#pragma once

#include <string>
#include <utility>

namespace panpipe {

struct MemoryScale {
  double factor = 1;  // bytes to the unit
  std::string unit;   // "GiB", "MiB", "KiB" or "B"
};

// The largest unit in which `largest_bytes` is 0.1 or more: one digit after the point says something.
inline MemoryScale memory_scale(double largest_bytes) {
  for (const auto& [size, unit] : {std::pair(1073741824.0, "GiB"), std::pair(1048576.0, "MiB"), std::pair(1024.0, "KiB")})
    if (largest_bytes >= 0.1 * size) return {1 / size, unit};
  return {1, "B"};
}

}  // namespace panpipe
