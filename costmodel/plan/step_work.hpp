// The work of a step, summed over its microbatches: of predictions and of measured steps.
#pragma once

#include "costmodel/plan/lowering_costs.hpp"

namespace panpipe {

// Of all replicas.
struct StepWork {
  double samples = 0;
  double tokens = 0;     // 0: the model reads none
  Flops model_flops{0};  // forward and backward, without recompute
};

StepWork step_work(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs);

}  // namespace panpipe
