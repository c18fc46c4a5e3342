// The row that a rank runs in one step.
#pragma once

#include <cstdint>
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

// The forward passes of the plan's row, each a cell of its own: they depend on one another as in the whole row, so they end as it
// does.
StepRow row_of_evaluation(const Schedule& schedule, int position);

// Per position: the number of entries at the beginning of its row that are forwards, and read nothing but what such forwards of
// other positions make. They may run before all ranks know whether the last update stands.
std::vector<std::size_t> forwards_ahead(const Schedule& schedule, const StageLayout& layout);

// The step that a pass of the row of `step` belongs to.
std::int64_t step_of(const StepRow& row, const Action& action, std::int64_t step);

}  // namespace panpipe::exec
