#include "costmodel/base/error.hpp"
#include "exec/engine/run/run.hpp"
#include "exec/engine/training/training_run.hpp"

namespace panpipe::exec {

PreparedRun::PreparedRun(RunRequest asked)
    : request(std::move(asked)), experiment(load_scenario(request.scenario, request.overrides)) {
  const Scenario& scenario = experiment.scenario;
  if (!experiment.workload.graph)
    throw fault_at(scenario, "workload", "measured layers are times, not operators: there is nothing to execute",
                   "name a built-in model, or give an exported one: {pt2: FILE}");
  if (scenario.parallel.tensor > 1)
    throw fault_at(scenario, "parallel.tensor", "the executor splits over pipeline and data only",
                   "run with parallel.tensor 1; estimate and simulate predict tensor parallelism");
  if (scenario.parallel.zero > 1)
    throw fault_at(scenario, "parallel.zero", "the executor shards optimizer state (zero: 1), not gradients or parameters",
                   "run with parallel.zero 0 or 1");
  plan = experiment.plan(request.plan);
  layout = make_layout(*experiment.workload.graph, plan);
  check_training(*this);
}

}  // namespace panpipe::exec
