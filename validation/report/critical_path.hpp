// The chain of actions and transfers that made the step as long as it is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

enum class PathKind : std::uint8_t { Pass, Optimizer, Transfer, Reduction, Gap };
const char* name_of(PathKind kind);  // "passes", "optimizer", ...

struct PathPart {
  PathKind kind{};
  std::int32_t device = 0;  // a transfer's: where it arrives
  std::string action;       // empty for gaps
  double start = 0, end = 0;
};

// From the last end back to the start, each part by what ended last before it: the action before on its lane, the arrival of its
// input (then the action that made it, on the other device), the reduction before an optimizer. Returned in the order of time,
// without holes. A document does not hold dependencies: they follow from stages and microbatches. O(n log n).
std::vector<PathPart> critical_path(const Timeline& timeline);

}  // namespace panpipe
