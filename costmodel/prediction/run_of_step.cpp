#include "costmodel/prediction/run_of_step.hpp"

#include <algorithm>

#include "costmodel/cost/zero_and_optimizer.hpp"

namespace panpipe {
namespace {

// All of the cluster, since unused devices are paid for, too.
RunMachine machine_of(const Cluster& cluster) {
  RunMachine machine{std::vector<double>(cluster.types.size(), 0.0), static_cast<double>(cluster.nodes)};
  for (const Device& device : cluster.devices) machine.gpus[device.type] += 1;
  return machine;
}

// Measurements correct the step: then the run is that of the corrected one.
double corrected_step(const Metrics& figures) {
  return figures.evidence.p90_before_s > 0 ? figures.step_time_p50_s : figures.step_time_s;
}

}  // namespace

void state_rl(Metrics& figures, const Scenario& scenario, const Plan& plan) {
  if (!scenario.rollout) return;
  const double training_s = corrected_step(figures);
  const int gpus = plan.device_count(), unit = gpus / std::max(1, plan.data);
  figures.rl = rl_step(*scenario.rollout, training_s, gpus);
  if (scenario.rollout->gpus > 0 && scenario.rollout->staleness > 0)
    figures.rl->best = best_division(*scenario.rollout, training_s, gpus, gpus + scenario.rollout->gpus, unit);
}

void state_run(Metrics& figures, const TaskGraph& graph, const Scenario& scenario) {
  if (!scenario.run) return;
  const RunMachine machine = machine_of(scenario.cluster);
  RunStep step{.time = Duration(corrected_step(figures)),
               .samples = graph.samples_per_step,
               .tokens = graph.tokens_per_step,
               .checkpoint_bytes = figures.parameters * checkpoint_bytes_per_parameter(scenario)};
  RunAnswer answer = run_cost(*scenario.run, machine, step);
  if (!answer.cost)
    throw fault_at(scenario, answer.fault.key.empty() ? "run" : "run." + answer.fault.key, answer.fault.message,
                   answer.fault.help);
  figures.run = std::move(answer.cost);
  if (figures.step_time_p90_s <= 0) return;
  // A longer step may leave no time to train between failures: then that quantile is not known.
  const auto at_step = [&](double seconds, std::optional<double>& time, std::optional<double>& cost) {
    step.time = Duration(seconds);
    const RunAnswer other = run_cost(*scenario.run, machine, step);
    if (!other.cost) return;
    time = other.cost->time_s;
    cost = other.cost->cost;
  };
  at_step(figures.step_time_p10_s, figures.run->time_p10_s, figures.run->cost_p10);
  at_step(figures.step_time_p90_s, figures.run->time_p90_s, figures.run->cost_p90);
}

}  // namespace panpipe
