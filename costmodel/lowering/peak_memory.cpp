// Sweeps the lowering's stages and memory in the order of each rank's row. With one compute lane, times do not matter.
#include "costmodel/lowering/peak_memory.hpp"

#include <algorithm>

#include "costmodel/lowering/lowering.hpp"

namespace panpipe {

std::vector<PeakMemory> peak_memory(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs) {
  Lowering lowering{scenario, plan, costs};
  make_stages(lowering);
  make_stage_edges(lowering);
  make_memory(lowering);
  std::vector<PeakMemory> result;
  for (std::size_t rank = 0; rank < plan.schedule.order.size(); ++rank) {
    const RankMemory& memory = lowering.graph.memory[rank];
    Bytes live{0}, peak{0};
    for (const Action& action : plan.schedule.order[rank]) {
      if (!action.is_compute()) continue;
      const PassMemory& pass = lowering.stage(action.stage).memory[lowering.slice_of(action)][index_of(action.kind)];
      live += pass.take;
      peak = std::max(peak, live + pass.temporary);
      live -= pass.give;
    }
    result.push_back({memory.allocated(peak), memory.limit});
  }
  return result;
}

}  // namespace panpipe
