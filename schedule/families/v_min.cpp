// v-min: the V with the memory of the published building block of that name, about a third of what ZB-V and 1F1B hold (Qi et al.,
// Pipeline parallelism with controllable memory, NeurIPS 2024), searched for the costs at hand.
#include "schedule/families/building.hpp"
#include "schedule/search/building_block.hpp"
#include "schedule/search/search_order.hpp"

namespace panpipe {
namespace {

Schedule make_v_min(int ranks, int microbatches, const ScheduleOptions&, const PassCosts& costs) {
  const int memory = search::block_memory(search::Pattern::VMin, ranks);
  return search::searched_schedule("v-min", ranks, microbatches, 2, memory, costs);
}

}  // namespace

// Planners try zb-v-auto, within the memory that they have.
ScheduleFamily v_min_family() {
  return {"v-min",
          "zb-v searched within about a third of its memory",
          published::kControllableMemory,
          {},
          make_v_min,
          /*refusal=*/nullptr,
          /*planned=*/false};
}

}  // namespace panpipe
