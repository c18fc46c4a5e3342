// What every method says of a plan that the engines can run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "costmodel/prediction/prediction.hpp"
#include "planner/planner.hpp"

namespace panpipe::planner {

// What a prediction says of a candidate: its metrics and its evidence.
void state_metrics(Candidate& candidate, const Prediction& prediction);

// A candidate's metrics, from an estimate or a simulation of it.
std::vector<std::pair<std::string, double>> figures_of(const Prediction& prediction);

// Its stages, with the names of their units.
std::vector<PlannedStage> stages_of(const Plan& plan, const WorkloadCost& workload);

}  // namespace panpipe::planner
