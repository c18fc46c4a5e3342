// Legality of a plan's schedule, as an answer. Private to this folder.
#pragma once

#include <string>

#include "costmodel/scenario/degrees.hpp"
#include "schedule/schedule.hpp"

namespace panpipe {

// Throws NoAnswer that explains the first fault.
void check_plan_schedule(const Schedule& schedule);

// "pipeline 2 x data 1 x tensor 4", for messages; the context degree where there is one.
std::string product_of_degrees(const Degrees& degrees);

}  // namespace panpipe
