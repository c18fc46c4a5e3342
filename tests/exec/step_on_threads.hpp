// One step of a plan on ranks that are threads of this process, without a scenario.
#pragma once

#include <memory>
#include <vector>

#include "exec/engine/parameters.hpp"
#include "exec/engine/worker.hpp"

namespace panpipe::exec {

struct RankStep {
  std::unique_ptr<SeededParameters> parameters;  // with the gradients of the step
  StepResult result;
};

// Of each rank. Parameters have the workers' seed; every rank computes on one core. Throws as on_threads().
std::vector<RankStep> step_on_threads(const OperatorGraph& graph, const Plan& plan, const StageLayout& layout,
                                      const DataSource& data, WorkerOptions options = {.seed = 7});
// This thread's operators take one core from now on.
void compute_on_one_core();

}  // namespace panpipe::exec
