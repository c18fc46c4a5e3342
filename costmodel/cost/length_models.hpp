// The cost models of a scenario's sequences of further lengths. Internal to this folder.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "costmodel/cost/cost_model.hpp"

namespace panpipe {

class LengthModels {
 public:
  // Both must outlive it.
  LengthModels(const Scenario& scenario, const Workload& workload) : scenario_(scenario), workload_(workload) {}

  // Made on demand, once for each length; of the second shape and later ones. Throws InputError at `batch.lengths` if the model
  // cannot be built for such sequences.
  const CostModel& of(int length, const std::vector<Calibration>& calibrations);

 private:
  struct Made {
    Scenario scenario;
    Workload workload;
    CostModel model;
    Made(Scenario changed, const Degrees& degrees, const std::vector<Calibration>& calibrations)
        : scenario(std::move(changed)), workload(make_workload(scenario, degrees)), model(scenario, workload, calibrations) {}
  };

  const Scenario& scenario_;
  const Workload& workload_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Made>> made_;  // of the shapes after the first
};

}  // namespace panpipe
