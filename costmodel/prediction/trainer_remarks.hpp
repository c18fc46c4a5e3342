// Remarks on a plan that the scenario's trainer is to run.
#pragma once

#include <string>
#include <vector>

#include "costmodel/plan/plan.hpp"
#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

// A sentence for each thing that the trainer cannot run, then for each that is to be known before such a job is started or its
// figures are believed. Empty if the scenario states no trainer.
std::vector<std::string> trainer_remarks(const Scenario& scenario, const Plan& plan);

// The names of all trainers that can run the plan.
std::vector<std::string> trainers_of(const Plan& plan);

}  // namespace panpipe
