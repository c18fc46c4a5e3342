// The parts in which ZeRO 3 gathers the parameters of a stage. Predictions and the executor share this rule.
#pragma once

#include <string>
#include <vector>

namespace panpipe {

// A part of a stage's passes whose parameters arrive block by block: a block, or the units before, between or after blocks. In a
// workload without blocks each unit is a part.
struct GatheredPart {
  int first_unit = 0, end_unit = 0;
  int group = 0;  // parts whose parameters arrive, and whose gradients leave, together: one group per block, and one for all
                  // units outside blocks
};

// Parts of the stage of units [first, end). `block_of(unit)` is the name of its block, "" outside; `blocks`: the workload has
// blocks.
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
