// What to know before a plan is started, or its figures are believed.
#pragma once

#include <string>
#include <vector>

#include "costmodel/plan/plan.hpp"
#include "costmodel/profile/recipe.hpp"
#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

// A sentence for each type of device that other work disturbed while it was measured, for each that is `unmeasured`, for
// layers, a recipe of precision, packed samples and rollouts that no compared run has, and for each slow device and degraded link
// what it costs. Where the scenario states a trainer, also one for each thing that it cannot run, and for each to know before
// such a job is started.
std::vector<std::string> plan_cautions(const Scenario& scenario, const Plan& plan);

// The cluster's devices whose rates no run was compared with, each with the reason: intervals of their steps are wider.
std::vector<std::string> unmeasured(const Cluster& cluster);
// The recipe of the scenario's precision, if no measured step with it was compared; else null.
const Recipe* unmeasured_recipe(const Scenario& scenario);

// The names of all trainers that can run the plan, with this state in the host's memory, and this meaning of its recompute.
std::vector<std::string> trainers_of(const Plan& plan, const HostedState& hosted = {}, const RecomputeScope& scope = {});

}  // namespace panpipe
