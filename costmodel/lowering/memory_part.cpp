#include "costmodel/lowering/memory_part.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/index.hpp"

namespace panpipe {
namespace {

constexpr std::array<std::string_view, at(MemoryUse::Fragmentation) + 1> kNames = {
    "parameters", "gradients",   "gradient buckets", "optimizer",    "boundary buffers",
    "context",    "activations", "temporary",        "fragmentation"};

}  // namespace

std::string_view name_of(MemoryUse use) { return kNames[at(use)]; }

std::optional<MemoryUse> memory_use_named(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<MemoryUse>(found - kNames.begin());
}

Bytes RankMemory::allocated(Bytes dynamic) const {
  Bytes context{0}, rest = dynamic;
  for (const MemoryPart& part : parts) (part.use == MemoryUse::Context ? context : rest) += part.bytes;
  return context + Bytes(static_cast<std::int64_t>(std::nearbyint(allocator_factor * static_cast<double>(rest.base()))));
}

}  // namespace panpipe
