#include "planner/auto/unit_sums.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "costmodel/base/error.hpp"
#include "costmodel/plan/model_costs.hpp"
#include "costmodel/plan/pass_rules.hpp"
#include "costmodel/plan/stage_activations.hpp"
#include "costmodel/plan/stage_links.hpp"
#include "costmodel/plan/task_graph.hpp"

namespace panpipe::planner {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }
std::size_t at(Recompute mode) { return static_cast<std::size_t>(mode); }

// The model without what depends on the size of a stage (the host's part) and of the pipeline (jitter): those come later.
class DeviceCosts final : public LoweringCosts {
 public:
  DeviceCosts(const CostModel& model, const Degrees& degrees) : all_(model, degrees) {}
  const WorkloadCost& workload(int type) const override { return all_.workload(type); }
  TransferCost transfer(int from, int to, Bytes bytes) const override { return all_.transfer(from, to, bytes); }
  CollectiveCost collective(CollectiveKind kind, Bytes bytes, const std::vector<int>& devices) const override {
    return all_.collective(kind, bytes, devices);
  }
  Duration overlap_slowdown(Duration collective, int site) const override { return all_.overlap_slowdown(collective, site); }
  bool measured() const override { return all_.measured(); }
  bool temporary_over_before() const override { return all_.temporary_over_before(); }

 private:
  ModelCosts all_;
};

// Each of these units a stage of its own, all on one rank.
Plan unit_by_unit(const Scenario& scenario, const Degrees& degrees, const std::vector<int>& units, Recompute mode, bool split) {
  Plan plan{degrees, {}, {}, {}};
  for (int t = 0; t < plan.tensor; ++t) plan.devices.push_back(scenario.placement ? (*scenario.placement)[at(t)] : t);
  Schedule& schedule = plan.schedule;
  schedule.ranks = schedule.microbatches = 1;
  schedule.stages = static_cast<int>(units.size());
  schedule.stage_to_rank.assign(units.size(), 0);
  schedule.chains.emplace_back(units.size());
  std::iota(schedule.chains[0].begin(), schedule.chains[0].end(), 0);
  schedule.order.resize(1);
  const auto add = [&](ActionKind kind, int stage) {
    Action action;
    action.kind = kind;
    action.stage = stage;
    schedule.order[0].push_back(action);
  };
  for (int s = 0; s < schedule.stages; ++s) {
    plan.stages.push_back({units[at(s)], units[at(s)] + 1, mode});
    add(ActionKind::F, s);
  }
  for (int s = schedule.stages - 1; s >= 0; --s) {
    add(split ? ActionKind::I : ActionKind::B, s);
    if (split) add(ActionKind::W, s);
  }
  return plan;
}

bool cost_alike(const UnitCost& a, const UnitCost& b) {
  const auto same = [](const PassCost& x, const PassCost& y) {
    return x.launches == y.launches && x.breakdown.total == y.breakdown.total;
  };
  const auto bytes = [](const UnitCost& u) {
    return std::array{u.saved, u.saved_selective, u.saved_full, u.kept_for_weight, u.temporary};
  };
  const auto elements = [](std::int64_t sum, const ParameterUse& use) { return sum + use.elements; };
  const auto parameters = [&](const UnitCost& u) {
    return std::accumulate(u.parameters.begin(), u.parameters.end(), std::int64_t{0}, elements);
  };
  if (bytes(a) != bytes(b) || parameters(a) != parameters(b)) return false;
  return !a.structure.empty() && a.structure == b.structure && a.block.empty() == b.block.empty() && same(a.forward, b.forward) &&
         same(a.input_gradient, b.input_gradient) && same(a.weight_gradient, b.weight_gradient);
}

Degrees on_one_rank(const WorkloadShape& shape) {
  return {.tensor = shape.tensor_degree, .sequence_parallel = shape.sequence_parallel, .micro = shape.microbatch};
}

double seconds_of(Ticks ticks) { return to_duration(ticks).base(); }

}  // namespace

// Models whose blocks are alike then have the same cuts, whatever the time of a block.
BalancedCuts::Weighed& BalancedCuts::weigh(const std::vector<PartitionUnit>& units, double parts) {
  double sum = 0;
  for (const PartitionUnit& unit : units) sum += unit.weight.base();
  const double part = sum / static_cast<double>(units.size()) / parts;
  std::vector<std::int64_t> weights;
  for (const PartitionUnit& unit : units) weights.push_back(part > 0 ? std::llround(unit.weight.base() / part) : 0);
  const std::lock_guard guard(lock_);
  std::unique_ptr<Weighed>& known = known_[weights];
  if (known) return *known;
  known = std::make_unique<Weighed>();
  known->units = units;
  for (std::size_t u = 0; u < units.size(); ++u) known->units[u].weight = Duration(1e-6 * static_cast<double>(weights[u]));
  return *known;
}

const std::vector<int>& BalancedCuts::find(Weighed& weighed, int stages) {
  {
    const std::lock_guard guard(lock_);
    if (const auto known = weighed.cuts.find(stages); known != weighed.cuts.end()) return known->second;
  }
  std::vector<int> cuts = automatic_cuts(weighed.units, stages);
  const std::lock_guard guard(lock_);
  return weighed.cuts.try_emplace(stages, std::move(cuts)).first->second;
}

UnitSums::UnitSums(const CostModel& model, BalancedCuts& balanced)
    : model_(model), scenario_(model.scenario()), degrees_(on_one_rank(model.source().shape)), balanced_(balanced) {
  type_ = scenario_.cluster.devices.front().type;
  workload_ = &model.workload(type_);
  count_ = static_cast<int>(workload_->units.size());
  find_alike();
  for (const Recompute mode : {Recompute::None, Recompute::Selective, Recompute::Full}) add_programs(mode);
  most_stages_ = most_stages_of(workload_->units);
  find_tied();
}

void UnitSums::add_programs(Recompute mode) {
  std::vector<Row>& rows = rows_[at(mode)];
  rows.assign(at(count_) + 1, Row{});
  const DeviceCosts costs(model_, degrees_);
  std::vector<int> distinct;
  for (int u = 0; u < count_; ++u)
    if (alike_[at(u)] == u) distinct.push_back(u);
  const auto visit = [&](bool split, auto add) {
    const TaskGraph graph = lower(scenario_, unit_by_unit(scenario_, degrees_, distinct, mode, split), costs);
    for (const Task& task : graph.tasks) {
      if (task.kind != TaskKind::Pass) continue;
      const Program& program = graph.programs[at(task.program)];
      double compute = 0;
      for (std::int32_t s = program.first_step; s < program.first_step + program.steps; ++s)
        if (!graph.steps[at(s)].collective) compute += seconds_of(graph.steps[at(s)].time);
      const int unit = distinct[at(task.action.stage)];
      add(task.action.kind, workload_->units[at(unit)], rows[at(unit) + 1], seconds_of(program.duration), compute);
    }
  };
  visit(false, [](ActionKind kind, const UnitCost& unit, Row& row, double time, double compute) {
    const PassCost& pass = kind == ActionKind::F ? unit.forward : unit.backward ? *unit.backward : unit.input_gradient;
    double& device = kind == ActionKind::F ? row.forward : row.backward;
    double& sync = kind == ActionKind::F ? row.forward_sync : row.backward_sync;
    // Of a pass in which host and device meet, the collectives still overlap with the host.
    sync += pass.synchronises ? compute : 0;
    device += pass.synchronises ? time - compute : time;
    row.work += compute;
    row.forward_work += kind == ActionKind::F ? compute : 0;
  });
  if (workload_->split_backward)
    visit(true, [](ActionKind kind, const UnitCost& unit, Row& row, double time, double compute) {
      if (kind == ActionKind::F) return;
      const bool input = kind == ActionKind::I;
      const bool meets = (input ? unit.input_gradient : unit.weight_gradient).synchronises;
      (input ? row.input_sync : row.weight_sync) += meets ? compute : 0;
      (input ? row.input_gradient : row.weight_gradient) += meets ? time - compute : time;
      (input ? row.input_work : row.weight_work) += compute;
    });
  for (int u = 0; u < count_; ++u) rows[at(u) + 1] = rows[at(alike_[at(u)]) + 1];  // alike_ points backwards
  add_up(mode);
}

void UnitSums::add_up(Recompute mode) {
  std::vector<Row>& rows = rows_[at(mode)];
  for (int u = 0; u < count_; ++u) {
    const UnitCost& unit = workload_->units[at(u)];
    int again = 0;
    if (!unit.block.empty() && mode == Recompute::Full) again = unit.recompute_full.launches;
    if (!unit.block.empty() && mode == Recompute::Selective) again = unit.recompute_selective.launches;
    Row& row = rows[at(u) + 1];
    const Row& sum = rows[at(u)];
    row.forward_launches = unit.forward.launches;
    row.input_launches = again + unit.input_gradient.launches;
    row.weight_launches = unit.weight_gradient.launches;
    row.backward_launches = unit.backward ? again + unit.backward->launches : row.input_launches + row.weight_launches;
    for (double Row::*part :
         {&Row::forward, &Row::backward, &Row::input_gradient, &Row::weight_gradient, &Row::forward_sync, &Row::backward_sync,
          &Row::input_sync, &Row::weight_sync, &Row::work, &Row::forward_work, &Row::input_work, &Row::weight_work})
      row.*part += sum.*part;
    for (int Row::*part : {&Row::forward_launches, &Row::backward_launches, &Row::input_launches, &Row::weight_launches})
      row.*part += sum.*part;
  }
}

void UnitSums::find_alike() {
  // With a profile the first unit's backward is another than that of its like.
  const bool each = scenario_.profile != nullptr;
  std::vector<int> distinct;
  for (int u = 0; u < count_; ++u) {
    const auto same = [&](int other) { return !each && cost_alike(workload_->units[at(other)], workload_->units[at(u)]); };
    const auto found = std::find_if(distinct.begin(), distinct.end(), same);
    alike_.push_back(found == distinct.end() ? u : *found);
    if (found == distinct.end()) distinct.push_back(u);
  }
  constexpr double kCoarse = 16, kFine = 4096;
  parts_ = static_cast<int>(distinct.size()) * 8 <= count_ ? kCoarse : kFine;
}

int most_stages_of(const std::vector<UnitCost>& units) {
  int blocks = 0;
  for (std::size_t u = 0; u < units.size(); ++u)
    if (!units[u].block.empty() && (u == 0 || units[u - 1].block != units[u].block)) ++blocks;
  return blocks >= 2 ? blocks : static_cast<int>(units.size());
}

void UnitSums::find_tied() {
  std::map<int, TiedParameter> uses;
  for (int u = 0; u < count_; ++u)
    for (const ParameterUse& use : workload_->units[at(u)].parameters) {
      if (use.tensor < 0) continue;
      TiedParameter& parameter = uses[use.tensor];
      parameter.elements = use.elements;
      if (parameter.units.empty() || parameter.units.back() != u) parameter.units.push_back(u);
    }
  for (const auto& [tensor, parameter] : uses)
    if (parameter.units.size() > 1) tied_.push_back(parameter);
}

double UnitSums::least_work(Recompute mode) const { return rows_[at(mode)].back().work; }

StageCost UnitSums::stage(Recompute mode, int first, int end) const {
  const Row& a = rows_[at(mode)][at(first)];
  const Row& b = rows_[at(mode)][at(end)];
  const ModelCosts costs(model_, degrees_);
  const auto hosted = [&](double device, int launches) {
    return device > 0 ? costs.host_bound(Duration(device), launches, type_).base() : device;
  };
  StageCost stage;
  stage.forward = hosted(b.forward - a.forward, b.forward_launches - a.forward_launches) + b.forward_sync - a.forward_sync;
  stage.backward = hosted(b.backward - a.backward, b.backward_launches - a.backward_launches) + b.backward_sync - a.backward_sync;
  stage.forward_device = b.forward - a.forward + b.forward_sync - a.forward_sync;
  const double input = b.input_gradient - a.input_gradient, weight = b.weight_gradient - a.weight_gradient;
  stage.input_gradient = hosted(input, b.input_launches - a.input_launches) + b.input_sync - a.input_sync;
  stage.input_device = input + b.input_sync - a.input_sync;
  stage.weight_gradient = hosted(weight, b.weight_launches - a.weight_launches) + b.weight_sync - a.weight_sync;
  stage.work = b.work - a.work;
  stage.forward_work = b.forward_work - a.forward_work;
  stage.input_work = b.input_work - a.input_work;
  stage.weight_work = b.weight_work - a.weight_work;
  const StageActivations sums = sum_activations(*workload_, first, end, mode, costs.temporary_over_before(), WholeBytes{});
  stage.kept = sums.kept;
  stage.kept_for_weight = sums.kept_for_weight;
  stage.forward_rise = std::max<std::int64_t>(sums.forward_peak - sums.kept, 0);
  stage.backward_rise = sums.backward_peak;
  stage.input_rise = sums.input_rise();
  const std::int64_t each = size_of(compute_dtype(scenario_.precision)).base();
  std::int64_t block = 0;
  for (int u = first; u < end; ++u) {
    const UnitCost& unit = workload_->units[at(u)];
    stage.saved += unit.saved.base();
    stage.saved_rise = std::max(stage.saved_rise, stage.saved + unit.temporary.base());
    if (u > first && (unit.block.empty() || unit.block != workload_->units[at(u - 1)].block)) block = 0;
    for (const ParameterUse& use : unit.parameters) {
      stage.elements += use.elements;
      stage.given += use.given.base();
      block += use.elements * each + use.given.base();
    }
    stage.gathered = std::max(stage.gathered, block);
    stage.optimizer += unit.optimizer.base();
  }
  stage.saved_rise -= stage.saved;
  for (const TiedParameter& tied : tied_) {  // counted once in a stage
    const auto inside = std::count_if(tied.units.begin(), tied.units.end(), [&](int u) { return u >= first && u < end; });
    if (inside > 1) stage.elements -= (inside - 1) * tied.elements;
  }
  return stage;
}

// What stages hand to the next one, and who shares parameters.
void UnitSums::add_boundaries(StageTable& table) const {
  std::vector<int> stage_of(at(count_));
  int now = 0;
  for (int u = 0; u < count_; ++u) {
    while (now < static_cast<int>(table.cuts.size()) && u >= table.cuts[at(now)]) ++now;
    stage_of[at(u)] = now;
  }
  for (const StageLink& link : stage_links(workload_->edges, stage_of)) {
    if (link.to != link.from + 1) continue;  // what skips stages adds to no bound
    table.stages[at(link.from)].forward_bytes = link.bytes;
    table.stages[at(link.from)].backward_bytes = link.gradient_bytes;
  }
  for (const TiedParameter& tied : tied_) {
    std::vector<int>& stages = table.tied_stages.emplace_back();
    for (const int u : tied.units)
      if (stages.empty() || stages.back() != stage_of[at(u)]) stages.push_back(stage_of[at(u)]);
  }
}

// What the scenario states, else the cuts that balance forward and backward.
std::vector<int> UnitSums::cuts(Recompute mode, int stages) {
  std::vector<PartitionUnit>& units = weights_[at(mode)];
  for (int u = static_cast<int>(units.size()); u < count_; ++u) {
    const UnitCost& unit = workload_->units[at(u)];
    const StageCost cost = stage(mode, u, u + 1);
    units.push_back({unit.name, unit.block, Duration(cost.forward + cost.backward)});
  }
  const auto& stated = scenario_.partition;
  if (!stated.empty()) return stated_cuts(units, stated, stages);
  if (weighed_[at(mode)] == nullptr) weighed_[at(mode)] = &balanced_.weigh(units, parts_);
  return balanced_.find(*weighed_[at(mode)], stages);
}

bool UnitSums::stages_alike(int first, int other, int units) const {
  for (int i = 0; i < units; ++i)
    if (alike_[at(first + i)] != alike_[at(other + i)]) return false;
  // The same units of a block may begin a block here and end one there.
  return workload_->units[at(first)].block.empty() == workload_->units[at(other)].block.empty();
}

const StageTable& UnitSums::table(Recompute mode, int stages) {
  std::unique_ptr<StageTable>& table = tables_[at(mode)][stages];
  if (table) return *table;
  table = std::make_unique<StageTable>();
  table->cuts = cuts(mode, stages);
  int before = -1, length = 0;
  for (int s = 0; s < stages; ++s) {
    const int first = s == 0 ? 0 : table->cuts[at(s - 1)], end = s + 1 < stages ? table->cuts[at(s)] : count_;
    const bool again = before > 0 && length == end - first && stages_alike(before, first, length);
    table->stages.push_back(again ? table->stages.back() : stage(mode, first, end));
    before = first;
    length = end - first;
  }
  StageCost& start = table->stages.front();
  if (backward_all_in_weight(scenario_, false)) {
    start.weight_gradient = start.backward, start.input_gradient = 0;
    start.weight_work = start.work - start.forward_work, start.input_work = 0;
    start.input_rise = 0;
  }
  add_boundaries(*table);
  return *table;
}

}  // namespace panpipe::planner
