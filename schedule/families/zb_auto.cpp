// zb-auto: one stage a rank, split backward, the shortest step that the search finds within a memory limit (the automatic
// scheduler of Qi et al., Zero bubble pipeline parallelism, ICLR 2024, solves the same problem; memory P and 2P are its ZB-1p and
// ZB-2p).
#include "schedule/order_building.hpp"
#include "schedule/search/search_order.hpp"

namespace panpipe {
namespace {

Schedule make_zb_auto(int ranks, int microbatches, const ScheduleOptions& options, const PassCosts& costs) {
  const int memory = integer_option(options, "memory", ranks, 1);
  const int effort = integer_option(options, "effort", 100, 1);  // per cent of the usual search
  return search::searched_schedule("zb-auto", ranks, microbatches, 1, memory, costs, effort / 100.0);
}

}  // namespace

ScheduleFamily zb_auto_family() {
  return {"zb-auto",
          "zb-h1 searched: the shortest step found within a memory limit",
          published::kZeroBubble,
          {{"memory", "P"}, {"effort", "100"}},
          make_zb_auto};
}

}  // namespace panpipe
