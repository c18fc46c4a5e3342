// What to know before a plan is started, or its figures are believed.
#pragma once

#include <string>
#include <vector>

#include "costmodel/plan/plan.hpp"
#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

// A sentence for each type of device that other work disturbed while it was measured. Where the scenario states a trainer, also
// one for each thing that it cannot run, and for each to know before such a job is started.
std::vector<std::string> plan_cautions(const Scenario& scenario, const Plan& plan);

// The names of all trainers that can run the plan, with this state in the host's memory.
std::vector<std::string> trainers_of(const Plan& plan, const HostedState& hosted = {});

}  // namespace panpipe
