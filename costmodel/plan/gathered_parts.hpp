// In which parts ZeRO 3 gathers the parameters of a stage: one rule for predictions and for the executor.
#pragma once

#include <string>
#include <vector>

namespace panpipe {

// A part of a stage's passes where parameters come block by block: a block, or what stands before, between or behind blocks. In a
// workload without blocks each unit is one.
struct GatheredPart {
  int first_unit = 0, end_unit = 0;
  int group = 0;  // whose parameters come, and whose gradients go, together: a block's own; one of all that is outside blocks
};

// Of the stage of units [first, end). `block_of(unit)`: the name of its block, "" outside; `blocks`: has the workload any?
template <class BlockOf>
std::vector<GatheredPart> gathered_parts(int first, int end, bool blocks, BlockOf block_of) {
  std::vector<GatheredPart> parts;
  int groups = 0, outside = -1;
  for (int u = first; u < end;) {
    const std::string& block = block_of(u);
    GatheredPart part{u, u + 1, groups};
    while (blocks && part.end_unit < end && block_of(part.end_unit) == block) ++part.end_unit;
    if (blocks && block.empty() && outside >= 0)
      part.group = outside;
    else
      ++groups;
    if (blocks && block.empty()) outside = part.group;
    parts.push_back(part);
    u = part.end_unit;
  }
  return parts;
}

}  // namespace panpipe
