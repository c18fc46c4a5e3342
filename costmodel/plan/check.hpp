// Checks the legality of a plan's schedule. Private to this folder.
#pragma once

#include <string>

#include "costmodel/scenario/degrees.hpp"
#include "schedule/schedule.hpp"

namespace panpipe {

// Throws NoAnswer with an explanation of the first fault.
void check_plan_schedule(const Schedule& schedule);

// "pipeline 2 x data 1 x tensor 4", for messages; includes the context degree if it is used.
std::string product_of_degrees(const Degrees& degrees);

}  // namespace panpipe
