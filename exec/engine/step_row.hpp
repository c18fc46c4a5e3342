// The row that a rank runs in one step.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "exec/engine/stage_layout.hpp"
#include "schedule/schedule.hpp"

namespace panpipe::exec {

struct StepRow {
  std::vector<Action> order;
  std::vector<std::size_t> in_plan;  // per entry: its index in the plan's row, or that of the same pass of its own step
  // Of the numbers of microbatches: of one step and path, and whether those of odd steps follow those of even ones.
  int microbatches = 1;
  bool by_parity = false;
};

// The plan's row, or without a flush between steps that from the last update to the next (schedule/rolling.hpp, step_row).
StepRow row_of_step(const Schedule& schedule, int position, std::int64_t step, bool from_idle, bool drains);

// Per position: the number of entries at the beginning of its row that are forwards, and read nothing but what such forwards of
// other positions make. They may run before all ranks know whether the last update stands.
std::vector<std::size_t> forwards_ahead(const Schedule& schedule, const StageLayout& layout);

// The step and the microbatch of its path that a pass of the row of `step` belongs to.
std::pair<std::int64_t, int> step_and_microbatch(const StepRow& row, const Action& action, std::int64_t step);

}  // namespace panpipe::exec
