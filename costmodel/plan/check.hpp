// Legality of a plan's schedule, as an answer. Private to this folder.
#pragma once

#include "schedule/schedule.hpp"

namespace panpipe {

// Throws NoAnswer that explains the first fault.
void check_plan_schedule(const Schedule& schedule);

}  // namespace panpipe
