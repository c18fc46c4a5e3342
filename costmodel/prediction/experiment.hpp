// The scenario with the workload and cost model made from it. Every verb that predicts or runs uses it.
#pragma once

#include <string>
#include <vector>

#include "costmodel/cost/cost_model.hpp"
#include "costmodel/plan/plan.hpp"
#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

// Not copyable, because the cost model refers to the other members.
struct Experiment {
  Scenario scenario;
  Workload workload;
  CostModel model;

  explicit Experiment(Scenario loaded);
  Experiment(Scenario loaded,
             std::vector<Calibration> calibrations);  // calibrations read before, one for each of the cluster's types
  Experiment(const Experiment&) = delete;
  Plan plan(const std::string& file) const;  // from a plan file; if empty, as the scenario requests
};

// Of a sequence, the mean over the step's microbatches; 0 if the model reads no tokens.
double mean_tokens(const Experiment& experiment);

}  // namespace panpipe
