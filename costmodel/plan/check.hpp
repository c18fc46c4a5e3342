// Checks that the parts of a plan fit together. Private to this folder.
#pragma once

#include <string>
#include <vector>

#include "costmodel/plan/plan.hpp"

namespace panpipe {

// Throws InputError if the schedule is for other ranks or microbatches, and NoAnswer with an explanation of its first fault.
void check_schedule_fits(const Degrees& degrees, const Schedule& schedule);

// Plan::lengths for the scenario's `lengths`, in their order; empty if all microbatches are alike. Throws InputError at
// `batch.lengths` if there are not as many as microbatches.
std::vector<int> plan_lengths(const Scenario& scenario, const Plan& plan);

// What is wrong with the devices of a plan; empty: nothing.
std::string device_problem(const std::vector<int>& devices, const Degrees& degrees, const Cluster& cluster);

}  // namespace panpipe
