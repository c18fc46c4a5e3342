// The history of a rank's allocator over the steps that are replayed (allocator_replay.hpp): each block with the tensor in it,
// for snapshots in PyTorch's form.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "costmodel/lowering/memory_part.hpp"
#include "costmodel/memory/allocator_history.hpp"
#include "costmodel/plan/lowering_costs.hpp"
#include "costmodel/workload/graph.hpp"

namespace panpipe {

// What a block holds, and why.
struct AllocationLabel {
  MemoryUse use{};
  std::string what;   // "aten::gelu: the result, kept for the backward"
  std::string where;  // of the model: "h.3.mlp"
  std::string when;   // "forward of microbatch 1, stage 0"
  int step = 0;       // from 1; 0: before the first

  bool operator==(const AllocationLabel&) const = default;
  bool operator<(const AllocationLabel& other) const {  // libc++ 13 has no <=> of texts
    return std::tie(use, what, where, when, step) < std::tie(other.use, other.what, other.where, other.when, other.step);
  }
};

struct RecordedEvent {
  AllocatorEvent of;
  std::int64_t asked = 0;  // bytes of the tensor in a block
  int label = -1;          // of the tensor that the block holds, or for which a segment was taken; into `labels`
};

struct AllocationHistory {
  int rank = 0;
  bool expandable_segments = false;
  std::vector<RecordedEvent> events;
  std::vector<AllocationLabel> labels;
  std::vector<AllocatorSegment> segments;                              // when the last step has ended
  std::int64_t asked_peak = 0, allocated_peak = 0, reserved_peak = 0;  // bytes
  // The answer's bytes over the replay's: its sums also count what the replay does not make, and leave out what only the replay
  // makes.
  double scale = 1;
};

// Of a pipeline rank of the plan. `graph`: that of the costs. Without events where nothing is replayed: measured layers, clusters
// written in place, and frameworks with an allocator's factor.
AllocationHistory record_allocations(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs,
                                     const OperatorGraph& graph, int rank);

}  // namespace panpipe
