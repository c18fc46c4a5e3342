// A plan to tasks, in the order in which a reader would do it by hand: what each stage is, what its passes cost, what flows
// between stages, what memory they need, then the tasks of each rank and what each waits for.
#include <fmt/format.h>

#include <algorithm>

#include "costmodel/base/error.hpp"
#include "costmodel/plan/lowering.hpp"
#include "costmodel/plan/model_costs.hpp"
#include "costmodel/plan/prices.hpp"

namespace panpipe {

std::string_view name_of(Lane lane) {
  switch (lane) {
    case Lane::Compute:
      return "compute";
    case Lane::Tensor:
      return "tensor";
    case Lane::Send:
      return "send";
    case Lane::Receive:
      return "receive";
    case Lane::Data:
      return "data";
    case Lane::Copy:
      return "copy";
    case Lane::Host:
      return "host";
  }
  return "";
}

void make_stages(Lowering& lowering) {
  const Plan& plan = lowering.plan;
  PANPIPE_CHECK(plan.stages.size() == static_cast<std::size_t>(plan.schedule.stages), "a plan has one entry per stage");
  lowering.rank_stages.resize(static_cast<std::size_t>(plan.pipeline));
  for (int s = 0; s < plan.schedule.stages; ++s) {
    const StagePlan& stage = plan.stages[static_cast<std::size_t>(s)];
    StageInfo info;
    info.rank = plan.schedule.stage_to_rank[static_cast<std::size_t>(s)];
    info.device_type = lowering.scenario.cluster.devices[static_cast<std::size_t>(plan.device(info.rank, 0, 0))].type;
    info.first_unit = stage.first_unit;
    info.end_unit = stage.end_unit;
    info.recompute = stage.recompute;
    std::array<int, 5> none{};
    none.fill(-1);
    info.programs.assign(static_cast<std::size_t>(plan.schedule.splits), none);
    info.memory.resize(static_cast<std::size_t>(plan.schedule.splits));
    info.train_points.resize(static_cast<std::size_t>(plan.schedule.splits));
    lowering.stages.push_back(info);
    lowering.rank_stages[static_cast<std::size_t>(info.rank)].push_back(s);
  }
  for (const auto& row : plan.schedule.order) {
    for (const Action& action : row) {
      if (action.kind == ActionKind::W) lowering.stage(action.stage).weight_apart = true;
      if (action.kind == ActionKind::R) lowering.stage(action.stage).recompute_apart = true;
    }
  }
  for (StageInfo& info : lowering.stages)  // a schedule with R actions says by itself that everything is recomputed
    if (info.recompute_apart && info.recompute == Recompute::None) info.recompute = Recompute::Full;
}

namespace {

void check_split_backward(const Lowering& lowering) {
  for (const StageInfo& info : lowering.stages)
    if (info.weight_apart && !lowering.workload(info).split_backward)
      throw fault_at(
          lowering.scenario, "schedule",
          fmt::format("schedule '{}' runs input gradients and weight gradients apart, but the layers give only "
                      "`backward`; give `input_gradient` and `weight_gradient`, or choose a schedule with full backwards",
                      lowering.plan.schedule.name));
}

// Passes run unit by unit only where it makes a difference: that costs the engines more.
void choose_lanes(Lowering& lowering) {
  const Scenario& scenario = lowering.scenario;
  TaskGraph& graph = lowering.graph;
  const bool early = scenario.transfers.full_backward_sends == TransferRules::FullBackwardSends::InputGradient;
  bool by_units = scenario.collectives_run_on;
  for (const auto& row : lowering.plan.schedule.order)
    for (const Action& action : row)
      by_units = by_units || (early && action.kind == ActionKind::B) ||
                 (scenario.schedule.braid == Braid::Split && action.is_compute() && action.group != GroupKind::None);
  graph.by_units = by_units;
  graph.collectives_run_on = scenario.collectives_run_on;
  if (by_units) graph.overlap_loss = overlap_loss(lowering.costs);
}

void fill_totals(Lowering& lowering) {
  const Scenario& scenario = lowering.scenario;
  const Plan& plan = lowering.plan;
  TaskGraph& graph = lowering.graph;
  graph.samples_per_step = static_cast<double>(plan.micro) * plan.schedule.microbatches * plan.data;
  graph.model_flops_per_step = lowering.costs.model_flops() * graph.samples_per_step;
  graph.peak_per_device = scenario.cluster.type_of(plan.device(0, 0, 0)).peak_for(scenario.precision);
}

// Stages, what flows between them, and what their passes cost.
void begin(Lowering& lowering) {
  const Plan& plan = lowering.plan;
  TaskGraph& graph = lowering.graph;
  graph.ranks = plan.pipeline;
  graph.tensor = plan.tensor;
  graph.data = plan.data;
  graph.devices = plan.devices;
  make_stages(lowering);
  choose_lanes(lowering);
  check_split_backward(lowering);
  make_stage_edges(lowering);
  make_bucket_trains(lowering);
  make_programs(lowering);
}

}  // namespace

TaskGraph lower(const Scenario& scenario, const Plan& plan, const LoweringCosts& costs) {
  Lowering lowering{scenario, plan, costs};
  begin(lowering);
  make_memory(lowering);
  make_tasks(lowering);
  connect_tasks(lowering);
  fill_totals(lowering);
  return std::move(lowering.graph);
}

TaskGraph lower(const Scenario& scenario, const Plan& plan, const CostModel& model) {
  return lower(scenario, plan, ModelCosts(model, plan));
}

TaskGraph prices_of(const Scenario& scenario, const Plan& plan, const CostModel& model) {
  const ModelCosts costs(model, plan);
  Lowering lowering{scenario, plan, costs};
  begin(lowering);
  const bool copies = std::any_of(plan.schedule.order.begin(), plan.schedule.order.end(), [](const auto& row) {
    return std::any_of(row.begin(), row.end(), [](const Action& action) { return !action.is_compute(); });
  });
  if (lowering.graph.by_units || copies) return lower(scenario, plan, costs);
  make_shared_flows(lowering);
  for (int rank = 0; rank < plan.pipeline; ++rank) {
    rank_reductions(lowering, rank);
    add_optimizer_program(lowering, rank);
  }
  return std::move(lowering.graph);
}

}  // namespace panpipe
