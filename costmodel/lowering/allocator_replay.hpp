// What PyTorch's caching allocator makes of a plan's tensors: the allocations that a rank's row implies, replayed step by step
// (docs/models/memory.md, Reserved memory).
#pragma once

#include <vector>

#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/plan/lowering_costs.hpp"

namespace panpipe {

// The peaks of a rank's allocator over the bytes that its tensors ask for at their peak.
struct AllocatorOverhead {
  double allocated = 1, reserved = 1;
};

// Per rank. Empty where tensors are not known: measured layers, and clusters written in place. Two steps of the row's first
// microbatches are replayed, up to the point where every further one repeats them. O(operators x replayed microbatches).
std::vector<AllocatorOverhead> replay_allocator(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs);

// Puts overheads into the memory of a lowered plan's ranks, in place of the framework's factor. Empty: it stays.
void apply_overheads(const std::vector<AllocatorOverhead>& overheads, TaskGraph& graph);
// The same of a replay.
void apply_replay(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs, TaskGraph& graph);

}  // namespace panpipe
