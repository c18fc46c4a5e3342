// Asks the table of what goes together (schedule/goes_together.hpp) for a scenario.
#pragma once

#include "costmodel/scenario/scenario.hpp"
#include "schedule/goes_together.hpp"

namespace panpipe {

// Throws InputError at the key of the first row that refuses the features.
void check_together(const Scenario& scenario, const Features& features, Where asked);

}  // namespace panpipe
