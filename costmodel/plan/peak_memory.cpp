// The lowering's own stages and memory, swept in the order of each rank's row: one compute lane, so that times do not matter.
#include "costmodel/plan/peak_memory.hpp"

#include <algorithm>
#include <cmath>

#include "costmodel/plan/lowering.hpp"

namespace panpipe {

std::vector<PeakMemory> peak_memory(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs) {
  Lowering lowering{scenario, plan, costs};
  make_stages(lowering);
  make_stage_edges(lowering);
  make_memory(lowering);
  std::vector<PeakMemory> result;
  for (std::size_t rank = 0; rank < plan.schedule.order.size(); ++rank) {
    const RankMemory& memory = lowering.graph.memory[rank];
    std::int64_t context = 0, fixed = 0, live = 0, peak = 0;
    for (const MemoryPart& part : memory.parts) (part.name == "context" ? context : fixed) += part.bytes.base();
    for (const Action& action : plan.schedule.order[rank]) {
      if (!action.is_compute()) continue;
      const PassMemory& pass = lowering.stage(action.stage).memory[lowering.slice_of(action)][index_of(action.kind)];
      live += pass.take.base();
      peak = std::max(peak, live + pass.temporary.base());
      live -= pass.give.base();
    }
    const double allocated = std::nearbyint(memory.allocator_factor * static_cast<double>(fixed + peak));
    result.push_back({Bytes(context + static_cast<std::int64_t>(allocated)), memory.limit});
  }
  return result;
}

}  // namespace panpipe
