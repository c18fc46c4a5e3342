#include "base/text/memory_text.hpp"

#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace panpipe {
namespace {

constexpr std::pair<double, std::string_view> kUnits[] = {{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}};

}  // namespace

std::string memory_text(double bytes) {
  for (const auto& [size, unit] : kUnits)
    if (std::abs(bytes) >= size) return fmt::format("{:.2f} {}", bytes / size, unit);
  return fmt::format("{:.0f} B", bytes);
}

std::string MemoryScale::text(double bytes) const { return fmt::format("{:.1f} {}", factor * bytes, unit); }

MemoryScale memory_scale(double largest_bytes) {
  for (const auto& [size, unit] : kUnits)
    if (largest_bytes >= 0.1 * size) return {1 / size, std::string(unit)};
  return {1, "B"};
}

}  // namespace panpipe
