// What a result document says of its plan.
#pragma once

#include "costmodel/experiment/experiment.hpp"
#include "costmodel/timeline/result_plan.hpp"

namespace panpipe {

ResultPlan describe_plan(const Experiment& experiment, const Plan& plan, const Timeline& timeline);

}  // namespace panpipe
