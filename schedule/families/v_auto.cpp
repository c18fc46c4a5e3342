// v-auto and zb-v-auto: two stages a rank in a V, split backward, the shortest step that the search finds within a memory limit
// (Qi et al., Pipeline parallelism with controllable memory, NeurIPS 2024, whose adaptive V and ZB-V are these).
#include "schedule/families/building.hpp"
#include "schedule/search/search_order.hpp"

namespace panpipe {
namespace {

// The last rank runs both its stages of a microbatch before the first gradient.
constexpr int kLeastMemory = 2;

Schedule within_memory(const char* name, int ranks, int microbatches, const ScheduleOptions& options, const PassCosts& costs) {
  const int memory = integer_option(options, "memory", 2 * ranks, kLeastMemory);
  return search::searched_schedule(name, ranks, microbatches, 2, memory, costs);
}

}  // namespace

Schedule make_zb_v_auto(int ranks, int microbatches, const ScheduleOptions& options, const PassCosts& costs) {
  return within_memory("zb-v-auto", ranks, microbatches, options, costs);
}

Schedule make_v_auto(int ranks, int microbatches, const ScheduleOptions& options, const PassCosts& costs) {
  return within_memory("v-auto", ranks, microbatches, options, costs);
}

}  // namespace panpipe
