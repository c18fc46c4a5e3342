// Steps that follow each other without a flush: a rank begins its next step while other ranks are still busy with the last one.
// The schedule of one step becomes the order of several in a row, whose period is what a step takes. docs/models/rolling.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "schedule/schedule.hpp"

namespace panpipe {

// Microbatches of a step on each forward path, which numbers its own from 0. `steps`: in a row, of an order of several (rolled).
inline int microbatches_of_chain(const Schedule& schedule, int steps = 1) {
  return schedule.microbatches / steps / std::max(1, static_cast<int>(schedule.chains.size()));
}

enum class Rolling : std::uint8_t {
  None,       // every step ends before the next begins
  Validated,  // a rank updates when its own gradients are done (OPT ends its row), and goes on; checks come later
  Stale       // forwards of the next step fill the drain of this one: gradients are of the weights before the last update
};

// Stale: the family pipedream-2bw. Validated: a row ends with OPT.
Rolling rolling_of(const Schedule& schedule);
bool is_stale_family(std::string_view name);

// Versions of the weights with which microbatches of P ranks go on without a flush, M of them in a step. Those of two steps are
// under way at most where M >= P; else the first of a step begins before ceil((P - 1) / M) steps have ended.
int versions_needed(int ranks, int microbatches);
// Versions of the weights that a rank holds at a time, and updates that the gradients of a step do not know of yet: one less. Of
// one step, or of several in a row.
int weight_versions(const Schedule& schedule);
int staleness(const Schedule& schedule);

// A rank's row from one update to the next, without OPT, for M >= P. Microbatch M + m is that of the next step,
// whose first forwards run in this one; `from_idle`: those of this step did not run in the one before; `drains`: none of the next
// step run.
std::vector<Action> step_row(const Schedule& schedule, int rank, bool from_idle, bool drains);

// So many steps in a row, as one order: microbatch m of step k is k * M + m (of each chain: its own M), and OPT ends the part of
// each step in a row. The schedule is of one step and rolls; steps >= 1. The last step drains.
Schedule rolled(const Schedule& schedule, int steps);

// Steps before the window that is averaged for the period, in it, and in all: the transient from idle ranks, the steps after
// which the pattern of a ring of P ranks in flight repeats, and the drain. For M >= P.
constexpr int kStepsBefore = 3, kStepsAfter = 1;
int steps_in_window(const Schedule& schedule);
int steps_to_roll(const Schedule& schedule);

// ScheduleEvaluation::period.
std::optional<double> rolling_period(const Schedule& schedule, const PassCosts& costs, bool split_groups = false);

}  // namespace panpipe
