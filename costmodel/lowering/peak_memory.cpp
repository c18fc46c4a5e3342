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
    Bytes live{0};
    std::vector<bool> with_gradients(lowering.stages.size());
    for (const int s : lowering.stages_of_rank(static_cast<int>(rank))) live -= lowering.stage(s).late_gradients;
    Bytes peak = live;
    for (const Action& action : plan.schedule.order[rank]) {
      if (action.is_vocabulary()) {
        const PassMemory pass = vocabulary_memory(lowering, static_cast<int>(rank), action.kind);
        live += pass.take;
        peak = std::max(peak, live + pass.temporary);
        live -= pass.give;
      }
      if (!action.is_compute()) continue;
      const StageInfo& info = lowering.stage(action.stage);
      const PassMemory& pass = info.memory[lowering.slice_of(action)][index_of(action.kind)];
      live += pass.take + (action.kind == ActionKind::F ? info.outputs : Bytes(0));
      peak = std::max(peak, live + pass.temporary);
      live -= pass.give;
      if (ends_gradient(lowering, action)) {
        if (!with_gradients[action.stage]) live += info.late_gradients;
        with_gradients[action.stage] = true;
      }
    }
    for (const int s : lowering.stages_of_rank(static_cast<int>(rank))) live -= lowering.stage(s).outputs * lowering.slices();
    peak = std::max(peak, live + memory.end_of_step);
    result.push_back({memory.allocated(peak), memory.limit});
  }
  return result;
}

}  // namespace panpipe
