// Random changes of a row of an order under a memory limit: a pass moves, or an activation gets another way to its backward.
#pragma once

#include <cstddef>

#include "schedule/memory/fit_memory.hpp"
#include "schedule/order_building.hpp"
#include "schedule/search/random.hpp"

namespace panpipe {

// Changes the row of `rank` once. The passes of each activation keep their order (F, OFFLOAD, RELOAD, R, I or B, W), but the
// order of all rows may no longer finish or fit. False: nothing changed, or the row is to be restored.
bool change_row(Schedule& schedule, std::size_t rank, const ScheduleEvaluation& evaluation, const MemoryLimit& limit,
                search::Random& random);

}  // namespace panpipe
