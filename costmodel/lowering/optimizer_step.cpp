// The optimizer's step of a rank: its update, and what copies between device and host make it longer.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"
#include "costmodel/cluster/host_path.hpp"
#include "costmodel/cost/zero_and_optimizer.hpp"
#include "costmodel/lowering/lowering.hpp"
#include "costmodel/plan/streamed_weights.hpp"

namespace panpipe {

namespace {

// Elements that a device of the rank updates.
double updated_share(const Lowering& lowering, const HeldParameters& held) {
  const bool divided = lowering.zero() >= 1;
  return static_cast<double>(held.others.elements) / (divided ? lowering.plan.shard_group() : 1) +
         static_cast<double>(held.experts.elements) / (divided ? degrees_of_experts(lowering.plan).shard_group() : 1);
}

// An optimizer in the host's memory: gradients are copied to it during the backwards that make them, the rest before the step,
// and the updated weights are copied back after it. All devices of the plan copy at once.
Duration copies_of_step(const Lowering& lowering, int rank, const HeldParameters& held) {
  if (!lowering.scenario.offload.on_host_step() || held.elements() == 0) return Duration(0);
  if (streams_weights(lowering.scenario, lowering.plan)) return Duration(0);  // they are tasks
  const int device = lowering.device(rank);
  const auto rate = [&](bool away) { return copy_rate(lowering, device, away, "an optimizer in the host's memory needs"); };
  Ticks hidden(0);
  for (const int s : lowering.stages_of_rank(rank)) {
    const StageInfo& info = lowering.stage(s);
    for (const auto& passes : info.passes) {  // of the longest microbatch
      const std::int32_t backward = passes[index_of(info.weight_apart ? ActionKind::W : ActionKind::B)].program;
      if (backward < 0) continue;
      hidden += lowering.graph.programs[backward].duration;
      break;
    }
  }
  const double share = updated_share(lowering, held);
  const auto width = static_cast<double>(size_of(compute_dtype(lowering.scenario.precision)).base());
  const Duration down(share * lowering.costs.reduced_bytes() / rate(true).base());
  return std::max(down - to_duration(hidden), Duration(0)) + Duration(share * width / rate(false).base());
}

// States and gradients that stream through the device, which updates them: what their copies take longer than the update.
Duration streams_of_step(const Lowering& lowering, int rank, const HeldParameters& held, Duration update) {
  const double states = streamed_state_bytes(lowering.scenario);
  const double gradients = lowering.scenario.offload.gradients ? lowering.costs.reduced_bytes() : 0;
  if (states + gradients == 0 || held.elements() == 0) return Duration(0);
  const double share = updated_share(lowering, held);
  const double down = share * states / stream_rate(lowering, rank, true).base();
  const double up = share * (states + gradients) / stream_rate(lowering, rank, false).base();
  return std::max(Duration(std::max(down, up)) - update, Duration(0));
}

}  // namespace

Bandwidth stream_rate(const Lowering& lowering, int rank, bool away) {
  const int device = lowering.plan.devices.empty() ? 0 : lowering.device(rank);
  return copy_rate(lowering, device, away, "streams from and to the host's memory need");
}

Bandwidth copy_rate(const Lowering& lowering, int device, bool away, std::string_view needed) {
  const Cluster& cluster = lowering.scenario.cluster;
  std::vector<int> devices = lowering.plan.devices;
  if (devices.empty()) {
    devices.resize(at(std::min(cluster.size(), lowering.scenario.degrees.device_count())));
    std::iota(devices.begin(), devices.end(), 0);
  }
  const Bandwidth rate = shared_host_copy_bandwidth(cluster, devices, device, away);
  if (rate > Bandwidth(0)) return rate;
  throw fault_at(lowering.scenario, "offload",
                 fmt::format("device '{}' has no copy_bandwidth, which {}", cluster.type_of(device).name, needed),
                 "state it in the device file");
}

std::int32_t add_optimizer_program(Lowering& lowering, int rank) {
  const std::vector<int>& stages = lowering.stages_of_rank(rank);
  const int type = stages.empty() ? 0 : lowering.stage(stages.front()).site;
  const bool streams = streams_weights(lowering.scenario, lowering.plan);  // each parameter once, wherever its stages run
  const HeldParameters held =
      streams ? held_parameters(lowering, lowering.plan.schedule.chains.front()) : held_parameters(lowering, stages);
  const int sharing = streams ? lowering.plan.pipeline : 1;  // the host steps them; a rank waits for its share
  Duration measured(0);
  for (const int s : stages)
    for (int u = lowering.stage(s).first_unit; u < lowering.stage(s).end_unit && held.matrix_elements() == 0; ++u)
      measured += lowering.stage(s).unit(u).optimizer;
  if (sharing > 1 && held.matrix_elements() > 0)
    throw fault_at(
        lowering.scenario, "optimizer",
        fmt::format("how ranks whose weights travel share a step of {} is not known", lowering.scenario.optimizer.name),
        "name adam or adamw, or take a schedule whose weights stay");
  const auto by_element = [](const ParameterSums& part) {
    return std::pair(part.elements - part.matrix_elements, part.tensors - part.matrix_tensors);
  };
  const auto [others, tensors] = by_element(held.others);
  Breakdown cost = lowering.costs.optimizer(others / sharing, tensors / sharing, type);
  if (const auto [experts, of_experts] = by_element(held.experts); experts > 0)
    cost = cost + lowering.costs.expert_optimizer(experts / sharing, of_experts / sharing, type);
  if (held.matrix_elements() > 0)
    cost = cost + lowering.costs.around_update(held.others, held.experts, type) + matrix_step(lowering, rank).cost;
  const std::int32_t made = lowering.add_plain_program(
      cost.total + measured / sharing + copies_of_step(lowering, rank, held) + streams_of_step(lowering, rank, held, cost.total),
      cost);
  Program& program = lowering.graph.programs[made];
  program.exposed_communication = to_ticks(cost.communication);
  program.breakdown.communication = cost.communication;
  return made;
}

}  // namespace panpipe
