// The scenario with everything that is made from it. Every verb that predicts or runs stands on it.
#pragma once

#include <string>
#include <vector>

#include "costmodel/cost/cost_model.hpp"
#include "costmodel/plan/plan.hpp"
#include "costmodel/scenario/scenario.hpp"

namespace panpipe {

// Not copyable: the cost model refers to its neighbours.
struct Experiment {
  Scenario scenario;
  Workload workload;
  CostModel model;

  explicit Experiment(Scenario loaded);
  Experiment(Scenario loaded, std::vector<Calibration> calibrations);  // read before, one for each of the cluster's types
  Experiment(const Experiment&) = delete;
  Plan plan(const std::string& file) const;  // from a plan file, or what the scenario asks for when empty
};

}  // namespace panpipe
