// What the table of what goes together (schedule/goes_together.hpp) calls the features of a plan.
#pragma once

#include "costmodel/plan/plan.hpp"
#include "schedule/goes_together.hpp"

namespace panpipe {

Features features_of(const Scenario& scenario, const Plan& plan);

}  // namespace panpipe
