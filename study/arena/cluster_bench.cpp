#include "study/arena/cluster_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "costmodel/cluster/host_path.hpp"
#include "costmodel/cost/cost_model.hpp"
#include "costmodel/lowering/task_graph.hpp"
#include "costmodel/plan/slots.hpp"
#include "study/arena/units.hpp"

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

MeasuredLayer layer_of(double forward, double input, double weight, double share, const CostRatio& ratio) {
  MeasuredLayer layer;
  layer.forward = Duration(forward);
  layer.input_gradient = Duration(input);
  layer.weight_gradient = Duration(weight);
  layer.saved = Bytes(static_cast<std::int64_t>(share * static_cast<double>(ratio.kept.base())));
  layer.parameters = Bytes(static_cast<std::int64_t>(share * static_cast<double>(ratio.weights.base())));
  return layer;
}

// The model of an order as layers, and the range of them that each stage holds.
struct Layers {
  Workload workload;
  std::vector<StagePlan> stages;
};

void add_path(const CostRatio& ratio, double size, std::vector<MeasuredLayer> path, Layers& all) {
  LayerTable& table = *all.workload.layers;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const int at = static_cast<int>(table.layers.size());
    if (i > 0)
      table.edges.push_back({at - 1, at, Bytes(static_cast<std::int64_t>(size * static_cast<double>(ratio.bytes.base()))), ""});
    path[i].name = fmt::format("layer{}", at);
    table.layers.push_back(std::move(path[i]));
  }
}

// A layer is a stage of a chain: of the first one, which the others copy, or of each where microbatches have chains of their own.
// A vocabulary that is cut adds a layer at either end, which no stage holds. Slices share a stage's work among themselves.
void add_stages(const Played& order, const CostRatio& ratio, double forward_s, Layers& all) {
  const Schedule& schedule = order.schedule;
  const PassCosts::Stage even = {order.costs.F, order.costs.I, order.costs.W};
  const double whole = schedule.splits * forward_s, share = share_of_activation(schedule) * schedule.splits;
  const bool cut = schedule.vocabulary_barriers > 0;
  for (const std::vector<int>& chain : schedule.chains) {
    const double size = order.sizes.empty() ? 1 : order.sizes[chain.front()], head = ratio.head * forward_s;
    std::vector<MeasuredLayer> path(cut ? 1 : 0);
    for (const int stage : chain) {
      const PassCosts::Stage& costs = order.costs.stages.empty() ? even : order.costs.stages[stage];
      path.push_back(layer_of(costs.F * whole, costs.I * whole, costs.W * whole, share * size, ratio));
    }
    if (cut) path.push_back(layer_of(head, head, head, 0, ratio));
    const bool own = !order.sizes.empty() || &chain == &schedule.chains.front();
    const int first = (own ? static_cast<int>(all.workload.layers->layers.size()) : 0) + (cut ? 1 : 0);
    for (int i = 0; i < static_cast<int>(chain.size()); ++i) all.stages[chain[i]] = {first + i, first + i + 1, Recompute::None};
    if (own) add_path(ratio, size, std::move(path), all);
  }
}

// Forward and backward are cut apart, at multiples of a common part.
void add_slots(const Schedule& schedule, SlotCounts slots, const CostRatio& ratio, double forward_s, Layers& all) {
  const int parts = slots.forward * slots.backward, turn = parts - slots.forward;
  const double share = static_cast<double>(schedule.ranks) / parts, forward = share * forward_s;
  const double head = ratio.head * forward_s;
  std::vector<MeasuredLayer> path;
  for (int i = 0; i < parts; ++i) {
    const double more = i + 1 < parts ? 0 : head;
    path.push_back(layer_of(forward + more, ratio.I * forward + more, ratio.W * forward + more, share, ratio));
  }
  add_path(ratio, 1, std::move(path), all);
  for (const std::vector<int>& chain : schedule.chains)
    for (int k = 0; k < static_cast<int>(chain.size()); ++k) {
      const int forth = slots.backward - 1, back = parts - (k - slots.forward) * slots.forward;
      all.stages[chain[k]] = k < slots.forward    ? StagePlan{k * forth, (k + 1) * forth, Recompute::Full}
                             : k == slots.forward ? StagePlan{turn, parts, Recompute::None}
                                                  : StagePlan{back - slots.forward, back, Recompute::Full};
    }
}

Layers layers_of(const Played& order, const CostRatio& ratio, double forward_s) {
  Layers all;
  all.workload.name = "arena";
  all.workload.layers.emplace();
  all.workload.layers->source = ratio.origin;
  all.stages.resize(order.schedule.stages);
  const SlotCounts slots = slot_counts(order.schedule);
  if (slots.any())
    add_slots(order.schedule, slots, ratio, forward_s, all);
  else
    add_stages(order, ratio, forward_s, all);
  return all;
}

Plan plan_of(const Schedule& schedule, std::vector<StagePlan> stages) {
  Plan plan;
  plan.pipeline = schedule.ranks;
  plan.microbatches = schedule.microbatches;
  plan.virtual_stages = std::max(1, schedule.stages / schedule.ranks);
  plan.schedule = schedule;
  plan.stages = std::move(stages);
  for (int r = 0; r < schedule.ranks; ++r) plan.devices.push_back(r);
  return plan;
}

}  // namespace

struct ClusterBench::Parts {
  std::string cluster;
  CostRatio ratio;
  Scenario scenario;
  double forward_s = 0, delay_s = 0, copy_s = 0;  // copy: of what a rank's share leaves, all ranks at a time
};

ClusterBench::ClusterBench(const std::string& cluster, const CostRatio& ratio, int ranks, int microbatches)
    : parts_(new Parts{cluster, ratio, scenario_on(cluster, ranks, microbatches)}) {
  Scenario& scenario = parts_->scenario;
  const ComputeRate peak = scenario.cluster.type_of(0).peak_for(Precision::Bf16);
  if (!(peak > ComputeRate(0)))
    throw InputError(fmt::format("the devices of cluster {} state no peak in bf16, which the arena's costs stand on", cluster));
  parts_->forward_s = (ratio.work / peak).base() / kAchieved;
  scenario.workload = {};
  scenario.workload.layers_file = "equal layers";
  const Workload workload = layers_of(priced(make_schedule("1f1b", ranks, 1), ratio), ratio, parts_->forward_s).workload;
  const CostModel model(scenario, workload);
  const Degrees degrees = scenario.degrees;
  std::vector<int> devices(ranks);
  std::iota(devices.begin(), devices.end(), 0);
  const Bandwidth copies = shared_host_copy_bandwidth(scenario.cluster, devices, 0, true);
  parts_->copy_s = copies > Bandwidth(0) ? (ratio.kept / copies).base() : parts_->forward_s;
  for (int r = 0; r + 1 < ranks; ++r) parts_->delay_s += model.transfer(r, r + 1, ratio.bytes, degrees).time.base() / (ranks - 1);
}

ClusterBench::~ClusterBench() = default;

PassCosts ClusterBench::costs(const Schedule& schedule) const {
  PassCosts costs = plain_costs(schedule, parts_->ratio);
  for (double* cost : {&costs.F, &costs.I, &costs.W, &costs.S, &costs.T}) *cost *= parts_->forward_s;
  for (PassCosts::Stage& stage : costs.stages)
    for (double* cost : {&stage.F, &stage.I, &stage.W}) *cost *= parts_->forward_s;
  costs.comm = parts_->delay_s;
  costs.offload = parts_->copy_s * share_of_activation(schedule);
  return costs;
}

ClusterTime ClusterBench::time(const Schedule& schedule, const Engine& simulate) const {
  ClusterTime result;
  try {
    const Played order = priced(schedule, parts_->ratio);
    Layers layers = layers_of(order, parts_->ratio, parts_->forward_s);
    Scenario scenario = parts_->scenario;
    scenario.offload.parameters = slot_counts(order.schedule).any();  // stages without a home
    const CostModel model(scenario, layers.workload);
    const Plan plan = plan_of(order.schedule, std::move(layers.stages));
    const TaskGraph graph = lower(scenario, plan, model);
    result.estimated_s = step_figures(graph, scenario, plan).step_time_s;
    result.simulated_s = metrics(simulate(graph, scenario.cluster)).step_time_s;
  } catch (const InputError& error) {
    result.refused = error.diagnostics().front().message;
  } catch (const NoAnswer& error) {
    result.refused = error.what();
  }
  return result;
}

}  // namespace panpipe::study
