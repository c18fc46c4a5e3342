// Sweeps the lowering's stages and memory in the order of each rank's row. With one compute lane, times do not matter.
#include "costmodel/lowering/peak_memory.hpp"

#include <algorithm>

#include "costmodel/lowering/lowering.hpp"

namespace panpipe {

std::vector<PeakMemory> peak_memory(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs) {
  const Lowering lowering = lowered_memory(scenario, plan, costs);
  std::vector<PeakMemory> result;
  for (std::size_t rank = 0; rank < plan.schedule.order.size(); ++rank) {
    const RankMemory& memory = lowering.graph.memory[rank];
    Bytes live{0};
    RankPasses passes(lowering);
    for (const int s : lowering.stages_of_rank(static_cast<int>(rank))) live -= lowering.stage(s).late_gradients;
    Bytes peak = live;
    for (const Action& action : plan.schedule.order[rank]) {
      if (!action.is_compute() && !action.is_vocabulary()) continue;
      const RankPasses::Memory pass = action.is_compute()
                                          ? passes.next(action)
                                          : RankPasses::Memory{vocabulary_memory(lowering, static_cast<int>(rank), action.kind)};
      live += pass.take;
      peak = std::max(peak, live + pass.temporary);
      live += pass.gradients - pass.give;
    }
    peak = std::max(peak, live + memory.end_of_step);
    result.push_back({memory.allocated(peak), memory.limit});
  }
  return result;
}

}  // namespace panpipe
