#include "planner/auto/unit_sums.hpp"

#include <algorithm>
#include <cmath>

#include "base/index.hpp"
#include "costmodel/plan/pass_rules.hpp"
#include "costmodel/plan/stage_activations.hpp"
#include "costmodel/plan/stage_links.hpp"

namespace panpipe::planner {
namespace {

Degrees on_one_rank(const WorkloadShape& shape) {
  return {.tensor = shape.degrees.tensor, .micro = shape.degrees.micro, .sequence_parallel = shape.degrees.sequence_parallel};
}

}  // namespace

const std::vector<int>& BalancedCuts::of(const std::vector<PartitionUnit>& units, int stages) {
  std::pair<int, std::vector<double>> key(stages, {});
  key.second.reserve(units.size());
  for (const PartitionUnit& unit : units) key.second.push_back(unit.weight.base());
  {
    const std::lock_guard guard(lock_);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
  }
  std::vector<int> cuts = automatic_cuts(units, stages);
  const std::lock_guard guard(lock_);
  return known_.try_emplace(std::move(key), std::move(cuts)).first->second;
}

UnitSums::UnitSums(const CostModel& model, BalancedCuts& balanced)
    : scenario_(model.scenario()),
      memory_(scenario_),
      costs_(model, on_one_rank(model.source().shape)),
      balanced_(balanced),
      type_(scenario_.cluster.devices.front().type),
      workload_(model.workload(type_)),
      count_(static_cast<int>(workload_.units.size())),
      most_stages_(most_stages_of(workload_.units)),
      table_(scenario_, costs_, type_, {Recompute::None, Recompute::Selective, Recompute::Full}) {
  // Measured units that are alike still differ in time.
  constexpr double kCoarse = 16, kFine = 4096;
  parts_ = !scenario_.profile && table_.distinct() * 8 <= count_ ? kCoarse : kFine;
}

int most_stages_of(const std::vector<UnitCost>& units) {
  int blocks = 0;
  for (std::size_t u = 0; u < units.size(); ++u)
    if (!units[u].block.empty() && (u == 0 || units[u - 1].block != units[u].block)) ++blocks;
  return blocks >= 2 ? blocks : static_cast<int>(units.size());
}

double UnitSums::least_work(Recompute mode) const {
  return table_.least_sums(ActionKind::F, mode).compute.back() + table_.least_sums(ActionKind::B, mode).compute.back();
}

StageCost UnitSums::stage(Recompute mode, int first, int end) const {
  const auto compute = [&](ActionKind kind) { return table_.sum(&PassSums::compute, kind, mode, first, end); };
  StageCost stage;
  stage.forward = table_.time(ActionKind::F, mode, first, end);
  stage.backward = table_.time(ActionKind::B, mode, first, end);
  stage.forward_device = table_.device(ActionKind::F, mode, first, end);
  stage.forward_work = compute(ActionKind::F);
  stage.work = stage.forward_work + compute(ActionKind::B);
  if (workload_.split_backward) {
    stage.input_gradient = table_.time(ActionKind::I, mode, first, end);
    stage.weight_gradient = table_.time(ActionKind::W, mode, first, end);
    stage.input_device = table_.device(ActionKind::I, mode, first, end);
    stage.input_work = compute(ActionKind::I);
    stage.weight_work = compute(ActionKind::W);
  }
  const StageActivations sums =
      memory_.activations(workload_, first, end, mode, workload_.recompute_first, costs_.temporary_over_before(), WholeBytes{});
  stage.kept = sums.kept;
  stage.kept_for_weight = sums.kept_for_weight;
  stage.forward_rise = std::max<std::int64_t>(sums.forward_peak - sums.kept, 0);
  stage.backward_rise = sums.backward_peak;
  stage.input_rise = sums.input_rise();
  // Experts may be held by one rank each, which gathers none: a bound leaves them out.
  for (const HeldParameters& block : held_by_block(workload_, first, end))
    stage.gathered = std::max(stage.gathered, weight_bytes(block.others, scenario_.precision).base());
  stage.held = table_.held(first, end);
  stage.optimizer = table_.given_optimizer()[end] - table_.given_optimizer()[first];
  return stage;
}

// The bytes that stages pass to the next one, and the stages that share parameters.
void UnitSums::add_boundaries(Stages& table) const {
  std::vector<int> stage_of(at(count_));
  int now = 0;
  for (int u = 0; u < count_; ++u) {
    while (now < static_cast<int>(table.cuts.size()) && u >= table.cuts[now]) ++now;
    stage_of[u] = now;
  }
  for (const StageLink& link : stage_links(workload_.edges, stage_of)) {
    if (link.to != link.from + 1) continue;  // what skips stages adds to no bound
    table.stages[link.from].forward_bytes = link.bytes;
    table.stages[link.from].backward_bytes = link.gradient_bytes;
  }
  for (const TiedParameter& tied : table_.tied()) {
    std::vector<int>& stages = table.tied_stages.emplace_back();
    for (const int u : tied.units)
      if (stages.empty() || stages.back() != stage_of[u]) stages.push_back(stage_of[u]);
  }
}

// In parts of their mean, rounded: models whose blocks are alike then have the same cuts for any time of a block.
std::vector<PartitionUnit> UnitSums::weighed(Recompute mode) const {
  std::vector<PartitionUnit> units;
  double sum = 0;
  for (int u = 0; u < count_; ++u) {
    const UnitCost& unit = workload_.units[u];
    const StageCost cost = stage(mode, u, u + 1);
    units.push_back({unit.name, unit.block, Duration(cost.forward + cost.backward)});
    sum += units.back().weight.base();
  }
  const double part = sum / static_cast<double>(units.size()) / parts_;
  for (PartitionUnit& unit : units)
    unit.weight = Duration(part > 0 ? 1e-6 * static_cast<double>(std::llround(unit.weight.base() / part)) : 0);
  return units;
}

// The scenario's cuts, else those that balance forward and backward.
std::vector<int> UnitSums::cuts(Recompute mode, int stages) {
  std::vector<PartitionUnit>& units = units_[at(mode)];
  if (units.empty()) units = weighed(mode);
  const auto& stated = scenario_.partition;
  return stated.empty() ? balanced_.of(units, stages) : stated_cuts(units, stated, stages);
}

bool UnitSums::stages_alike(int first, int other, int units) const {
  for (int i = 0; i < units; ++i)
    if (table_.like(first + i) != table_.like(other + i)) return false;
  // The same units of a block may begin a block here and end one there.
  return workload_.units[first].block.empty() == workload_.units[other].block.empty();
}

const Stages& UnitSums::table(Recompute mode, int stages) {
  std::unique_ptr<Stages>& table = tables_[at(mode)][stages];
  if (table) return *table;
  table = std::make_unique<Stages>();
  table->cuts = cuts(mode, stages);
  int before = -1, length = 0;
  for (int s = 0; s < stages; ++s) {
    const int first = s == 0 ? 0 : table->cuts[s - 1], end = s + 1 < stages ? table->cuts[s] : count_;
    const bool again = before > 0 && length == end - first && stages_alike(before, first, length);
    table->stages.push_back(again ? table->stages.back() : stage(mode, first, end));
    before = first;
    length = end - first;
  }
  StageCost& start = table->stages.front();
  if (backward_all_in_weight(scenario_.framework, false)) {
    start.weight_gradient = start.backward, start.input_gradient = 0;
    start.weight_work = start.work - start.forward_work, start.input_work = 0;
    start.input_rise = 0;
  }
  add_boundaries(*table);
  return *table;
}

}  // namespace panpipe::planner
