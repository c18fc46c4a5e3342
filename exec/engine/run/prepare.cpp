#include <fmt/format.h>

#include "costmodel/base/error.hpp"
#include "exec/engine/run/run.hpp"
#include "exec/engine/training/training_run.hpp"

namespace panpipe::exec {
namespace {

// What the executor does not do, by the actions of the order.
void check_schedule_runs(const Scenario& scenario, const Schedule& schedule) {
  if (schedule.splits > 1)
    throw fault_at(scenario, "schedule",
                   fmt::format("'{}' cuts sequences into {} slices: a slice's attention reads the keys and values of the slices "
                               "before it, which an operator graph of whole sequences does not give",
                               schedule.name, schedule.splits),
                   "estimate and simulate predict it; run a schedule of whole microbatches");
}

}  // namespace

PreparedRun::PreparedRun(RunRequest asked)
    : request(std::move(asked)), experiment(load_scenario(request.scenario, request.overrides, request.plan)) {
  const Scenario& scenario = experiment.scenario;
  if (!experiment.workload.graph)
    throw fault_at(scenario, "workload", "measured layers are times, not operators: there is nothing to execute",
                   "name a built-in model, or give an exported one: {pt2: FILE}");
  if (scenario.parallel.zero > 1)
    throw fault_at(scenario, "parallel.zero", "the executor shards optimizer state (zero: 1), not gradients or parameters",
                   "run with parallel.zero 0 or 1");
  plan = experiment.plan(request.plan);
  check_schedule_runs(scenario, plan.schedule);
  layout = make_layout(*experiment.workload.graph, plan);
  check_training(*this);
}

}  // namespace panpipe::exec
