// The uses of a device's memory. One table holds the names that documents write.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/quantity.hpp"

namespace panpipe {

enum class MemoryUse : std::uint8_t {
  // Static: held for the whole step.
  Parameters,
  Gradients,
  GradientBuckets,
  Optimizer,
  BoundaryBuffers,
  Context,
  // Dynamic: taken and given back by tasks, at the peak.
  Activations,
  Temporary,
  Fragmentation
};
std::string_view name_of(MemoryUse use);                           // "parameters", "gradient buckets", ...
std::optional<MemoryUse> memory_use_named(std::string_view name);  // nullopt: not a name from the table

struct MemoryPart {
  MemoryUse use{};
  Bytes bytes{0};
};

// The memory that an allocator holds: the context, plus `factor` times all other bytes.
struct Allocation {
  Bytes context{0}, fixed{0};
  double factor = 1.0;

  Bytes with(Bytes dynamic) const;  // together with the bytes that tasks hold
};

// Memory of one device of a rank. If devices differ, `limit` is that of the smallest.
struct RankMemory {
  std::vector<MemoryPart> parts;  // static ones
  double allocator_factor = 1.0;  // on everything but the context: what the allocator reserves
  double rounding_factor = 1.0;   // the same for what it counts as allocated
  Bytes limit{0};                 // memory x usable
  Bytes end_of_step{0};           // that the optimizer's task needs while it runs

  Allocation allocation() const;  // of the static parts
  // Bytes that the allocator holds when tasks hold `dynamic` in addition to the static parts.
  Bytes allocated(Bytes dynamic) const { return allocation().with(dynamic); }
};

}  // namespace panpipe
