// Checks the legality of a plan's schedule. Private to this folder.
#pragma once

#include "schedule/schedule.hpp"

namespace panpipe {

// Throws NoAnswer with an explanation of the first fault.
void check_plan_schedule(const Schedule& schedule);

}  // namespace panpipe
