#include "planner/auto/shard_groups.hpp"

#include <algorithm>

#include "costmodel/degrees/check_degrees.hpp"
#include "costmodel/scenario/trainer.hpp"

namespace panpipe::planner {

bool divides_in_groups(const Scenario& scenario) {
  const bool hosted = scenario.offload.optimizer || scenario.offload.parameters;  // then a node's memory limits the group too
  return scenario.cluster.nodes > 1 && !hosted && is_open(scenario, "parallel.shard") &&
         !trainer_of(scenario).zero_in_groups.empty();
}

Exact try_shard_groups(Evaluator& evaluator, const Exact& start) {
  Exact best;
  const std::vector<int>& stages = trainer_of(evaluator.scenario()).zero_in_groups;
  const Configuration& c = start.configuration;
  if (std::find(stages.begin(), stages.end(), c.zero) == stages.end() || c.zero == 0) return best;
  const Cluster& cluster = evaluator.scenario().cluster;
  const int node = cluster.size() / cluster.nodes;
  const int step = c.order == AxisOrder::DataNext ? c.tensor : c.tensor * c.pipeline;  // devices from a replica to the next
  for (int group = c.replicas() - 1; group > 1 && !evaluator.common().stopped(); --group) {
    if (c.replicas() % group != 0 || group * step % node != 0) continue;
    Configuration with = c;
    with.shard = group;
    if (!degrees_hold(with)) continue;
    Plan plan = *start.plan;
    plan.shard = group;
    Exact next = evaluator.evaluate(with, plan);
    if (next.usable() && next.step_time < (best.usable() ? best : start).step_time) best = std::move(next);
  }
  best.bound = best.usable() ? start.bound : 0;
  return best;
}

}  // namespace panpipe::planner
