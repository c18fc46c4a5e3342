// Decides which activations leave a device, on the times of an order that holds too many.
#pragma once

#include <cstddef>

#include "schedule/memory/fit_memory.hpp"

namespace panpipe {

// Adds R, OFFLOAD and RELOAD to the rows that hold more than the limit, each on the times of the order as it is: whatever is used
// last leaves first (Belady, 1966), to the host if both copies fit between its passes, else it is made again. Where nothing can
// leave, a waiting W moves ahead, else a forward moves back. Added actions move other passes, so the result may still hold too
// many: evaluate it and call again. Returns false if nothing could be done.
bool evict(Schedule& schedule, const ScheduleEvaluation& evaluation, const PassCosts& costs, const MemoryLimit& limit);

}  // namespace panpipe
