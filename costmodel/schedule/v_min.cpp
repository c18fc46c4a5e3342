// v-min: the V with the memory of the published building block of that name, about a third of what ZB-V and 1F1B hold (Qi et al.,
// Pipeline parallelism with controllable memory, NeurIPS 2024), searched for the costs at hand.
#include "costmodel/schedule/building.hpp"
#include "costmodel/schedule/search/search.hpp"

namespace panpipe {

Schedule make_v_min(int ranks, int microbatches, const ScheduleOptions&, const PassCosts& costs) {
  const int memory = 2 * ((ranks + 1) / 3) + 2;  // the block's peak: two thirds of P, and two
  return search::searched_schedule("v-min", ranks, microbatches, 2, memory, costs);
}

}  // namespace panpipe
