#include "costmodel/plan/host_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/text/memory_text.hpp"
#include "costmodel/cost/zero_and_optimizer.hpp"
#include "costmodel/plan/held_parameters.hpp"
#include "costmodel/plan/model_costs.hpp"
#include "costmodel/plan/streamed_weights.hpp"
#include "costmodel/scenario/hosted_text.hpp"

namespace panpipe {
namespace {

// Of one device of the rank, each parameter once, and none that was asked about.
HeldParameters held_by_rank(const Plan& plan, const WorkloadCost& workload, int rank, FirstUses& first_use) {
  HeldParameters held;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    if (plan.schedule.stage_to_rank[s] != rank) continue;
    for (int u = plan.stages[s].first_unit; u < plan.stages[s].end_unit; ++u)
      for (const ParameterUse& use : workload.units[u].parameters)
        if (first_use(use, u)) held.add(use);
  }
  return held;
}

}  // namespace

std::vector<Bytes> hosted_state(const Scenario& scenario, const Plan& plan, const CostModel& model) {
  const HostedState& hosted = scenario.offload;
  if (!hosted.optimizer && !hosted.parameters && !hosted.gradients) return {};
  const int zero = zero_in_effect(scenario.framework, plan);
  const ModelCosts costs(model, plan);
  const auto share = [&](int stage, const Degrees& of) { return zero >= stage ? of.shard_group() : 1; };
  // Sums of gradients are whole below ZeRO 2; what goes to a step of the host is divided as that step is.
  const double gradients = hosted.gradients ? costs.reduced_bytes() : 0;
  const double optimizer = (hosted.on_host_step() ? checkpoint_bytes_per_parameter(scenario) : streamed_state_bytes(scenario)) +
                           (hosted.on_host_step() && !hosted.gradients ? costs.reduced_bytes() : 0);
  const double weights = hosted.parameters ? static_cast<double>(size_of(compute_dtype(scenario.precision)).base()) : 0;
  const auto bytes_each = [&](const Degrees& of) {
    return optimizer / share(1, of) + gradients / share(2, of) + weights / share(3, of);
  };
  const double others = bytes_each(plan), experts = bytes_each(degrees_of_experts(plan));
  std::vector<double> sums(scenario.cluster.node.size(), 0);
  const bool streams = streams_weights(scenario, plan);  // one copy for all ranks
  FirstUses first_use;
  for (int rank = 0; rank < plan.pipeline; ++rank) {
    if (!streams) first_use = {};
    const HeldParameters held = held_by_rank(plan, model.units(scenario.cluster.devices.front().type), rank, first_use);
    const double each = static_cast<double>(held.others.elements) * others + static_cast<double>(held.experts.elements) * experts;
    for (int replica = 0; replica < plan.replicas(); ++replica)
      for (int t = 0; t < plan.tensor; ++t)
        sums[static_cast<std::size_t>(scenario.cluster.devices[plan.device(rank, replica, t)].node)] += each;
  }
  std::vector<Bytes> bytes;
  for (const double sum : sums) bytes.emplace_back(static_cast<std::int64_t>(std::ceil(sum)));
  return bytes;
}

void check_host_memory(const Scenario& scenario, const Plan& plan, const CostModel& model) {
  const std::vector<ClusterNode>& nodes = scenario.cluster.node;
  if (std::all_of(nodes.begin(), nodes.end(), [](const ClusterNode& node) { return node.memory == Bytes(0); })) return;
  const std::vector<Bytes> state = hosted_state(scenario, plan, model);
  for (std::size_t n = 0; n < state.size(); ++n)
    if (nodes[n].memory > Bytes(0) && state[n] > nodes[n].memory)
      throw NoAnswer(fmt::format("{}: node {} needs {} of its host's memory, {} more than the {} that the cluster states",
                                 hosted_text(scenario.offload), n, memory_text(static_cast<double>(state[n].base())),
                                 memory_text(static_cast<double>((state[n] - nodes[n].memory).base())),
                                 memory_text(static_cast<double>(nodes[n].memory.base()))));
}

}  // namespace panpipe
