#include "study/arena/cluster_bench.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "costmodel/cost/cost_model.hpp"
#include "costmodel/lowering/task_graph.hpp"

namespace panpipe::study {
namespace {

// The workload is set below: the scenario's reader wants one.
Scenario bare_scenario(const std::string& cluster, int ranks, int microbatches) {
  const std::string text = fmt::format(
      "panpipe: 1\ncluster: {}\nworkload: {{model: gpt2}}\nprecision: bf16\noptimizer: none\n"
      "batch: {{micro: 1, microbatches: {}}}\nparallel: {{pipeline: {}}}\ntransfers: {{semantics: asynchronous}}\n",
      cluster, microbatches, ranks);
  return parse_scenario(text, "arena", ".");
}

// Its places are in a text that no user has written: faults are reported without them.
Scenario scenario_on(const std::string& cluster, int ranks, int microbatches) {
  Scenario one = [&] {
    try {
      return bare_scenario(cluster, 1, microbatches);
    } catch (const InputError& error) {
      const Diagnostic& fault = error.diagnostics().front();
      if (fault.file != "arena") throw;  // in the cluster's file
      throw InputError(fault.message, fault.help, fault.code);
    }
  }();
  const int devices = one.cluster.size();
  if (devices < ranks)
    throw InputError(fmt::format("cluster {} has {} devices, too few for {} ranks", cluster, devices, ranks),
                     "a cluster file with more nodes has more; 'none' leaves clusters out");
  return bare_scenario(cluster, ranks, microbatches);
}

// As many equal layers as a chain has stages.
Workload equal_layers(int layers, double share, double forward_s, const CostRatio& ratio) {
  Workload workload;
  workload.name = "arena";
  workload.layers.emplace();
  workload.layers->source = ratio.origin;
  for (int i = 0; i < layers; ++i) {
    MeasuredLayer layer;
    layer.name = fmt::format("stage{}", i);
    layer.forward = Duration(share * forward_s);
    layer.input_gradient = Duration(share * forward_s * ratio.I);
    layer.weight_gradient = Duration(share * forward_s * ratio.W);
    workload.layers->layers.push_back(layer);
    if (i > 0) workload.layers->edges.push_back({i - 1, i, ratio.bytes, ""});
  }
  return workload;
}

Plan plan_of_equal_layers(const Schedule& schedule) {
  Plan plan;
  plan.pipeline = schedule.ranks;
  plan.microbatches = schedule.microbatches;
  plan.virtual_stages = std::max(1, schedule.stages / schedule.ranks);
  plan.schedule = schedule;
  plan.stages.resize(schedule.stages);
  for (const std::vector<int>& chain : schedule.chains)
    for (int i = 0; i < static_cast<int>(chain.size()); ++i) plan.stages[chain[i]] = {i, i + 1, Recompute::None};
  for (int r = 0; r < schedule.ranks; ++r) plan.devices.push_back(r);
  return plan;
}

}  // namespace

struct ClusterBench::Parts {
  std::string cluster;
  CostRatio ratio;
  Scenario scenario;
  double forward_s = 0, delay_s = 0;
};

ClusterBench::ClusterBench(const std::string& cluster, const CostRatio& ratio, int ranks, int microbatches)
    : parts_(new Parts{cluster, ratio, scenario_on(cluster, ranks, microbatches), 0, 0}) {
  Scenario& scenario = parts_->scenario;
  const ComputeRate peak = scenario.cluster.type_of(0).peak_for(Precision::Bf16);
  if (!(peak > ComputeRate(0)))
    throw InputError(fmt::format("the devices of cluster {} state no peak in bf16, which the arena's costs stand on", cluster));
  parts_->forward_s = (ratio.work / peak).base() / kAchieved;
  scenario.workload = {};
  scenario.workload.layers_file = "equal layers";
  const Workload workload = equal_layers(ranks, 1, parts_->forward_s, ratio);
  const CostModel model(scenario, workload);
  const Degrees degrees = scenario.degrees;
  for (int r = 0; r + 1 < ranks; ++r) parts_->delay_s += model.transfer(r, r + 1, ratio.bytes, degrees).time.base() / (ranks - 1);
}

ClusterBench::~ClusterBench() = default;

PassCosts ClusterBench::costs(int stages_per_rank) const {
  PassCosts costs;
  costs.F = parts_->forward_s / stages_per_rank;
  costs.I = costs.F * parts_->ratio.I;
  costs.W = costs.F * parts_->ratio.W;
  costs.comm = parts_->delay_s;
  costs.offload = costs.F;
  return costs;
}

ClusterTime ClusterBench::time(const Schedule& schedule, int stages_per_rank, const Engine& simulate) const {
  ClusterTime result;
  try {
    const Workload workload =
        equal_layers(static_cast<int>(schedule.chains.front().size()), 1.0 / stages_per_rank, parts_->forward_s, parts_->ratio);
    const CostModel model(parts_->scenario, workload);
    const Plan plan = plan_of_equal_layers(schedule);
    const TaskGraph graph = lower(parts_->scenario, plan, model);
    result.estimated_s = step_figures(graph, parts_->scenario, plan).step_time_s;
    result.simulated_s = metrics(simulate(graph, parts_->scenario.cluster)).step_time_s;
  } catch (const InputError& error) {
    result.refused = error.diagnostics().front().message;
  } catch (const NoAnswer& error) {
    result.refused = error.what();
  }
  return result;
}

}  // namespace panpipe::study
