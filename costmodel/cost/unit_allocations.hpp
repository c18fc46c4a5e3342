// The allocations of a unit's forward and backward in their order, tensor by tensor, as PyTorch's operators make them. A replay
// of the allocator needs them (docs/models/memory.md, Reserved memory); sums over units are in UnitCost. Bytes of a microbatch on
// one device.
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/cost/compute.hpp"
#include "costmodel/workload/graph.hpp"

namespace panpipe {

struct AllocationStep {
  enum class Kind : std::uint8_t { Take, Give, WeightGradient };  // the last: of parameter `tensor`, made by this unit
  Kind kind{};
  int tensor = -1;         // of a unit's own numbers, which are the same in its forward and its backward
  std::int64_t bytes = 0;  // taken
};

struct UnitAllocations {
  std::vector<AllocationStep> forward, backward;
  std::vector<int> kept;  // what the forward leaves for the backward, which gives it back
};

// Of every unit of the graph. `copies_weights`: autocast keeps a copy of each weight that a product reads.
std::vector<UnitAllocations> unit_allocations(const OperatorGraph& graph, const DeviceRates& rates, bool copies_weights);

}  // namespace panpipe
