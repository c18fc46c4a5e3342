// v-auto and zb-v-auto: two stages per rank in a V, split backward, with the shortest step that the search finds within a memory
// limit (the adaptive V and ZB-V of Qi et al., Pipeline parallelism with controllable memory, NeurIPS 2024). v-half and v-min:
// the same with the memory of the published building blocks of these names, about half and a third of that of ZB-V and 1F1B.
#include "schedule/order_building.hpp"
#include "schedule/search/building_block.hpp"
#include "schedule/search/search_order.hpp"

namespace panpipe {
namespace {

// The last rank runs both its stages of a microbatch before the first gradient.
constexpr int kLeastMemory = 2;

Schedule within_memory(const char* name, int ranks, int microbatches, const ScheduleOptions& options, const PassCosts& costs) {
  const int memory = integer_option(options, "memory", 2 * ranks, kLeastMemory);
  return search::searched_schedule(name, ranks, microbatches, 2, memory, costs);
}

Schedule make_zb_v_auto(int ranks, int microbatches, const ScheduleOptions& options, const PassCosts& costs) {
  return within_memory("zb-v-auto", ranks, microbatches, options, costs);
}

Schedule make_v_auto(int ranks, int microbatches, const ScheduleOptions& options, const PassCosts& costs) {
  return within_memory("v-auto", ranks, microbatches, options, costs);
}

Schedule make_v_half(int ranks, int microbatches, const ScheduleOptions&, const PassCosts& costs) {
  const int memory = search::building_block_memory(search::Pattern::VHalf, ranks);
  return search::searched_schedule("v-half", ranks, microbatches, 2, memory, costs);
}

Schedule make_v_min(int ranks, int microbatches, const ScheduleOptions&, const PassCosts& costs) {
  const int memory = search::building_block_memory(search::Pattern::VMin, ranks);
  return search::searched_schedule("v-min", ranks, microbatches, 2, memory, costs);
}

}  // namespace

ScheduleFamily zb_v_auto_family() {
  return {"zb-v-auto",
          "zb-v searched: the shortest step found within a memory limit",
          published::kControllableMemory,
          {{"memory", "2P"}},
          make_zb_v_auto};
}

// Planners try zb-v-auto, within the memory that they have; the others are the same.
ScheduleFamily v_auto_family() {
  return {"v-auto",
          "zb-v searched within any memory",
          published::kControllableMemory,
          {{"memory", "2P"}},
          make_v_auto,
          /*refusal=*/nullptr,
          /*planned=*/false};
}

ScheduleFamily v_half_family() {
  return {"v-half",
          "zb-v searched within about half of its memory",
          published::kControllableMemory,
          {},
          make_v_half,
          /*refusal=*/nullptr,
          /*planned=*/false};
}

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
