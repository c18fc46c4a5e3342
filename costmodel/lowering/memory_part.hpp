// What a device's memory is for. One table holds the names that documents write.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/quantity.hpp"

namespace panpipe {

enum class MemoryUse : std::uint8_t {
  // Static: for the whole step.
  Parameters,
  Gradients,
  GradientBuckets,
  Optimizer,
  BoundaryBuffers,
  Context,
  // Of what tasks take and give back, at the peak.
  Activations,
  Temporary,
  Fragmentation
};
std::string_view name_of(MemoryUse use);                           // "parameters", "gradient buckets", ...
std::optional<MemoryUse> memory_use_named(std::string_view name);  // none: no use of ours

struct MemoryPart {
  MemoryUse use{};
  Bytes bytes{0};
};

// What an allocator holds: everything but the context takes `factor` times its bytes.
struct Allocation {
  Bytes context{0}, fixed{0};
  double factor = 1.0;

  Bytes with(Bytes dynamic) const;  // beside what tasks hold
};

// Memory of one device of a rank.
struct RankMemory {
  std::vector<MemoryPart> parts;  // static ones
  double allocator_factor = 1.0;  // on everything but the context
  Bytes limit{0};                 // memory x usable, of the device that has least

  Allocation allocation() const;  // of the parts
  // What the allocator holds when tasks hold `dynamic` beside the parts.
  Bytes allocated(Bytes dynamic) const { return allocation().with(dynamic); }
};

}  // namespace panpipe
