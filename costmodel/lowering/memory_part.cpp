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

Bytes Allocation::with(Bytes dynamic) const {
  const auto rest = static_cast<double>((fixed + dynamic).base());
  return context + Bytes(static_cast<std::int64_t>(std::nearbyint(factor * rest)));
}

Allocation RankMemory::allocation() const {
  Allocation allocation;
  for (const MemoryPart& part : parts) (part.use == MemoryUse::Context ? allocation.context : allocation.fixed) += part.bytes;
  allocation.factor = allocator_factor;
  return allocation;
}

}  // namespace panpipe
