// Lowers a plan to tasks in the natural order: the stages, the costs of their passes, the flows between stages, their memory, and
// then the tasks of each rank with their dependencies.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "base/index.hpp"
#include "costmodel/cluster/fabric.hpp"
#include "costmodel/lowering/idle_lowering.hpp"
#include "costmodel/lowering/like_replicas.hpp"
#include "costmodel/lowering/lowering.hpp"
#include "costmodel/lowering/prices.hpp"
#include "costmodel/plan/model_costs.hpp"
#include "costmodel/plan/step_work.hpp"
#include "costmodel/plan/streamed_weights.hpp"
#include "costmodel/scenario/dynamic_context.hpp"
#include "schedule/limits.hpp"
#include "schedule/rolling.hpp"
#include "schedule/walk.hpp"

namespace panpipe {

std::string_view name_of(Lane lane) {
  constexpr std::string_view kNames[] = {"compute", "tensor", "send", "receive", "data", "copy", "vocabulary"};
  return kNames[at(lane)];
}

// OPT ends each.
static int steps_in(const std::vector<Action>& row) {
  return static_cast<int>(
      std::count_if(row.begin(), row.end(), [](const Action& action) { return action.kind == ActionKind::Opt; }));
}

void make_stages(Lowering& lowering) {
  const Plan& plan = lowering.plan;
  PANPIPE_CHECK(plan.stages.size() == static_cast<std::size_t>(plan.schedule.stages), "a plan has one entry per stage");
  lowering.rank_stages.resize(plan.pipeline);
  lowering.steps = rolling_of(plan.schedule) == Rolling::None ? 1 : std::max(1, steps_in(plan.schedule.order.front()));
  lowering.attention.shared = exchange_of(plan.schedule, lowering.scenario.schedule.options);
  const int kinds_of_slices = lowering.attention.any() ? 2 : lowering.lengths();
  for (int s = 0; s < plan.schedule.stages; ++s) {
    const StagePlan& stage = plan.stages[s];
    StageInfo info;
    info.rank = plan.schedule.stage_to_rank[s];
    for (int length = 0; length < lowering.lengths(); ++length) {
      const Degrees degrees = degrees_of_length(lowering.scenario, plan, length);
      const PassGroups groups(degrees, plan.devices, info.rank, lowering.replica);
      const int site = lowering.costs.site_of(lowering.scenario.cluster, groups, length);
      info.lengths.push_back({site, &lowering.costs.workload(site)});
    }
    info.site = info.lengths.front().site;
    info.cost = info.lengths.front().cost;
    info.first_unit = stage.first_unit;
    info.end_unit = stage.end_unit;
    info.recompute = stage.recompute;
    info.recompute_first = stage.recompute_first > 0 ? stage.recompute_first : info.cost->recompute_first;
    for (std::size_t path = 0; path < plan.schedule.chains.size(); ++path)
      if (const auto& chain = plan.schedule.chains[path]; std::find(chain.begin(), chain.end(), s) != chain.end())
        info.first_microbatch = microbatches_of_chain(plan.schedule, lowering.steps) * static_cast<int>(path);
    info.passes.resize(at(plan.schedule.splits * kinds_of_slices));
    lowering.stages.push_back(info);
    lowering.rank_stages[info.rank].push_back(s);
  }
  for (const auto& row : plan.schedule.order) {
    for (const Action& action : row) {
      if (action.kind == ActionKind::W) lowering.stage(action.stage).weight_apart = true;
      if (action.kind == ActionKind::R) lowering.stage(action.stage).recompute_apart = true;
    }
  }
  for (StageInfo& info : lowering.stages)  // R actions of the schedule already recompute everything
    if (info.recompute_apart && info.recompute == Recompute::None) info.recompute = Recompute::Full;
  make_attention_exchange(lowering);
}

StageUnits stage_of_slice(const Lowering& lowering, const StageInfo& info, int slice) {
  StageUnits stage = info;
  const LengthSite& at_length = info.lengths[at(lowering.length_of_slice(slice))];
  stage.site = at_length.site;
  stage.cost = at_length.cost;
  if (const int splits = lowering.plan.schedule.splits; lowering.attention.any() && slice >= splits)
    stage.moved = lowering.attention.moved[at(&info - lowering.stages.data())][at(slice - splits)];
  return stage;
}

namespace {

void check_split_backward(const Lowering& lowering) {
  for (const StageInfo& info : lowering.stages)
    if (info.weight_apart && !info.cost->split_backward)
      throw fault_at(
          lowering.scenario, "schedule",
          fmt::format("schedule '{}' runs input gradients and weight gradients apart, but the layers give only "
                      "`backward`; give `input_gradient` and `weight_gradient`, or choose a schedule with full backwards",
                      lowering.plan.schedule.name));
}

// Unknown where it is of one device.
ComputeRate mean_peak(const Scenario& scenario, const Plan& plan) {
  double sum = 0;
  for (const int device : plan.devices) {
    const DeviceType& type = scenario.cluster.type_of(device);
    const ComputeRate peak = type.peak_for(scenario.precision);
    if (peak <= ComputeRate(0)) return ComputeRate(0);
    sum += peak.base() /
           clock_of_type(scenario.cluster,
                         scenario.cluster.devices[at(device)].type);  // the data sheet's, whatever a power limit leaves of it
  }
  return ComputeRate(sum / static_cast<double>(plan.devices.size()));
}

void fill_totals(Lowering& lowering) {
  const Scenario& scenario = lowering.scenario;
  const Plan& plan = lowering.plan;
  TaskGraph& graph = lowering.graph;
  const StepWork work = step_work(scenario, plan, lowering.costs);
  graph.samples_per_step = work.samples;
  graph.tokens_per_step = work.tokens;
  graph.model_flops_per_step = work.model_flops;
  graph.trained_parameters = lowering.costs.trained_parameters();
  graph.peak_per_device = mean_peak(scenario, plan);
}

// A part of a pass takes the memory of an action.
void check_number_of_parts(const Lowering& lowering) {
  const Schedule& schedule = lowering.plan.schedule;
  double parts = 0;
  for (const StageInfo& info : lowering.stages)
    for (const ActionKind kind : {ActionKind::F, ActionKind::B})
      if (has_parts(lowering, kind)) parts += static_cast<double>(info.parts.size());
  parts *= static_cast<double>(schedule.microbatches) * schedule.splits;
  if (parts <= kMaxActions) return;
  const bool global = !is_open(lowering.scenario, "batch.global");
  throw fault_at(
      lowering.scenario, global ? "batch.global" : "batch.microbatches",
      fmt::format("{} microbatches, whose passes gather their parameters block by block (ZeRO {}), make {:.6g} million "
                  "parts of passes; at most {:g} million are taken, what 8 GB of memory hold",
                  schedule.microbatches, lowering.zero(), parts / 1e6, kMaxActions / 1e6),
      "use fewer microbatches, or a lower parallel.zero");
}

// Stages, what flows between them, and what their passes cost.
void begin(Lowering& lowering) {
  const Plan& plan = lowering.plan;
  TaskGraph& graph = lowering.graph;
  graph.ranks = plan.pipeline;
  graph.degrees = plan;
  graph.devices = plan.devices;
  for (const int device : plan.devices)
    graph.limits.push_back(memory_limit(lowering.scenario, lowering.scenario.cluster.type_of(device)));
  make_stages(lowering);
  graph.collectives_run_on = lowering.scenario.collectives_run_on;
  check_split_backward(lowering);
  make_stage_edges(lowering);
  make_bucket_trains(lowering);
  make_stage_parts(lowering);
  check_number_of_parts(lowering);
  make_programs(lowering);
  make_vocabulary(lowering);
}

}  // namespace

TaskGraph lower_replica(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs, int replica,
                        bool whole_reductions) {
  Lowering lowering{scenario, plan, costs, replica, whole_reductions};
  begin(lowering);
  make_memory(lowering);
  make_tasks(lowering);
  connect_tasks(lowering);
  fill_totals(lowering);
  return std::move(lowering.graph);
}

namespace {

// Several steps in a row, for schedules that roll.
Plan rolled_plan(const Scenario& scenario, const Plan& plan) {
  if (weight_versions(plan.schedule) > 2)
    throw fault_at(scenario, "schedule",
                   fmt::format("{} with {} versions of the weights is neither predicted nor run: only its order is known",
                               plan.schedule.name, weight_versions(plan.schedule)),
                   "take as many microbatches as ranks, and versions 2");
  Plan all = plan;
  all.schedule = rolled(plan.schedule, steps_to_roll(plan.schedule));
  return all;
}

TaskGraph lower_joined(const Scenario& scenario, const Plan& one, const LoweringCosts& costs, Joined joined) {
  const bool rolls = rolling_of(one.schedule) != Rolling::None;
  const std::optional<Plan> several = rolls ? std::optional(rolled_plan(scenario, one)) : std::nullopt;
  const Plan& plan = several ? *several : one;
  const std::vector<int> like = like_replicas(scenario, plan, costs);
  if (std::all_of(like.begin(), like.end(), [](int replica) { return replica == 0; }))
    return lower_replica(scenario, plan, costs, 0);
  std::vector<TaskGraph> of_replica(like.size());
  for (std::size_t replica = 0; replica < like.size(); ++replica)
    if (like[replica] == static_cast<int>(replica)) of_replica[replica] = lower_replica(scenario, plan, costs, like[replica]);
  // All replicas reduce alike: in buckets only where that pays for each of them.
  const bool agree =
      std::all_of(like.begin(), like.end(), [&](int replica) { return same_tasks(of_replica[replica], of_replica.front()); });
  for (std::size_t replica = 0; replica < like.size() && !agree; ++replica)
    if (like[replica] == static_cast<int>(replica))
      of_replica[replica] = lower_replica(scenario, plan, costs, like[replica], true);
  return join_replicas(plan, like, of_replica, joined);
}

}  // namespace

TaskGraph lower(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs) {
  return lower_joined(scenario, plan, costs, Joined::All);
}

TaskGraph lower_for_idle_links(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs) {
  return lower_joined(scenario, plan, costs, Joined::OneOfEqual);
}

TaskGraph lower(const Scenario& scenario, const Plan& plan, const CostModel& model) {
  return lower(scenario, plan, ModelCosts(model, plan));
}

Prices prices_of(const TaskGraph& graph) {
  Prices prices;
  for (const Program& program : graph.programs) prices.programs.push_back(program.duration.base());
  for (const CollectiveFlow& flow : graph.flows) prices.flows.push_back((flow.latency + flow.transfer).base());
  for (const TransferLink& link : graph.links) prices.links.push_back((link.latency + link.transfer).base());
  for (const PassPoint& point : graph.points) prices.points.push_back(point.at.base() - prices.programs[point.program]);
  return prices;
}

Prices prices_of(const Scenario& scenario, const Plan& plan, const CostModel& model) {
  const ModelCosts costs(model, plan);
  Lowering lowering{scenario, plan, costs};
  begin(lowering);
  const bool copies = find_action(plan.schedule, [](ActionKind kind) { return kind > ActionKind::R; }) != nullptr;
  if (copies || streams_weights(scenario, plan) || !ways_of_stages(plan.schedule).empty() || lowering.attention.any())
    return prices_of(lower(scenario, plan, costs));
  make_shared_flows(lowering);
  for (int rank = 0; rank < plan.pipeline; ++rank) {
    rank_reductions(lowering, rank);
    add_optimizer_program(lowering, rank);
  }
  return prices_of(lowering.graph);
}

}  // namespace panpipe
