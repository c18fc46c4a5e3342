#include "planner/auto/exact.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "costmodel/lowering/idle_lowering.hpp"
#include "costmodel/plan/model_costs.hpp"
#include "costmodel/scenario/recompute_modes.hpp"
#include "costmodel/timeline/memory_curve.hpp"
#include "costmodel/timeline/memory_room.hpp"
#include "costmodel/timeline/step_time.hpp"

namespace panpipe::planner {
namespace {

constexpr std::size_t kMostVariants = 24;

const FamilyForm& form_of(const Configuration& c) { return forms()[static_cast<std::size_t>(c.family)]; }

std::vector<int> placement_of(const Configuration& c) {
  std::vector<int> devices;
  devices.reserve(static_cast<std::size_t>(c.devices()));
  for (int r = 0; r < c.pipeline; ++r)
    for (int d = 0; d < c.replicas(); ++d)
      for (int t = 0; t < c.tensor; ++t) devices.push_back(static_cast<int>(c.place(r, d, t)));
  return devices;
}

// A collective over devices that have the same share of the network is the same for all configurations.
class RememberingCosts final : public ModelCosts {
 public:
  RememberingCosts(const CostModel& model, const Plan& plan, CollectiveMemory& memory)
      : ModelCosts(model, plan), model_(model), memory_(memory) {}
  CollectiveCost collective(CollectiveKind kind, Bytes bytes, const std::vector<int>& devices) const override {
    return memory_.find(model_, kind, bytes, devices, occupancy().network_of(devices));
  }

 private:
  const CostModel& model_;
  CollectiveMemory& memory_;
};

// Whether the schedule is one of ours, or stays as the scenario states it.
bool chosen(const Configuration& c) { return !form_of(c).name.empty(); }

PlanRequest request_for(const Configuration& c, const Scenario& base, UnitSums& sums) {
  PlanRequest request = request_of(base);
  request.degrees = c.degrees();
  request.degrees.virtual_stages = base.parallel.virtual_stages;
  request.recompute = c.recompute;
  if (c.order == AxisOrder::PipelineNext) request.placement = placement_of(c);
  if (!chosen(c)) return request;
  const FamilyForm& form = form_of(c);
  request.schedule.name = form.name;
  request.schedule.csv.clear();
  request.schedule.options = form.options(c.chunks);
  if (c.held > 0) request.schedule.options["memory"] = std::to_string(c.held);
  request.degrees.virtual_stages = form.open_chunks() ? c.chunks : 1;
  if (base.partition.empty()) request.cuts = sums.table(c.recompute, c.stages()).cuts;
  return request;
}

}  // namespace

CollectiveCost CollectiveMemory::find(const CostModel& model, CollectiveKind kind, Bytes bytes, const std::vector<int>& devices,
                                      const GroupNetwork& network) {
  constexpr std::size_t kMost = 4096;
  if (known_.size() > kMost) known_.clear();
  const auto [entry, is_new] = known_.try_emplace({kind, bytes.base(), network.ring, devices});
  if (is_new) entry->second = model.collective(kind, bytes, devices, network);
  return entry->second;
}

Variant& Evaluator::variant(const Configuration& c) {
  if (variants_.size() > kMostVariants) variants_.clear();
  auto& known = variants_[c.shape()];
  if (!known) known = std::make_unique<Variant>(base_.scenario, c.degrees(), common_.calibrations, common_.cuts);
  return *known;
}

PlanRequest Evaluator::request(const Configuration& c) { return request_for(c, base_.scenario, variant(c).sums); }

TaskGraph Evaluator::lowered(const Configuration& c, const Plan& plan) {
  return lower(base_.scenario, plan, RememberingCosts(variant(c).model, plan, collectives_));
}

const std::vector<StageCost>& Evaluator::stages(const Configuration& c) {
  return variant(c).sums.table(c.recompute, c.stages()).stages;
}

bool Evaluator::can_cut(const Configuration& c, bool split_backward) {
  const UnitSums& sums = variant(c).sums;
  return c.stages() <= sums.most_stages() && (sums.split_backward() || !split_backward);
}

Exact Evaluator::evaluate(const Configuration& configuration, const Plan& plan) {
  const RememberingCosts costs(variant(configuration).model, plan, collectives_);
  const TaskGraph graph = lower_for_idle_links(base_.scenario, plan, costs);
  const TaskTimes times = estimate_times(graph);
  Exact exact;
  exact.configuration = configuration;
  exact.plan = std::make_shared<const Plan>(plan);
  // The parts of a prediction that the search compares, by the functions that make them there, without the spans.
  exact.step_time = to_duration(step_end(times)).base();
  exact.fits = true;
  for (int r = 0; r < graph.ranks; ++r) {
    DeviceTimeline device;
    add_memory(graph, times, r, device);
    exact.memory = std::max(exact.memory, static_cast<double>(device.peak.base()));
    exact.fits = exact.fits && panpipe::fits(device);
  }
  return exact;
}

Exact Evaluator::evaluate(const Configuration& configuration) {
  Exact none;
  none.configuration = configuration;
  try {
    Variant& own = variant(configuration);
    const PlanRequest request = request_for(configuration, base_.scenario, own.sums);
    return evaluate(configuration, make_plan(base_.scenario, request, own.model));
  } catch (const InputError& error) {
    none.fault = error.diagnostics().empty() ? error.what() : error.diagnostics().front().message;
  } catch (const NoAnswer& error) {
    none.fault = error.what();
  }
  return none;
}

std::vector<std::pair<std::string, std::string>> settings_of(const Exact& exact) {
  const Configuration& c = exact.configuration;
  const FamilyForm& form = form_of(c);
  std::vector<std::pair<std::string, std::string>> settings = {
      {"batch.micro", std::to_string(c.micro)},
      {"batch.microbatches", std::to_string(c.microbatches)},
      {"parallel.pipeline", std::to_string(c.pipeline)},
      {"parallel.tensor", std::to_string(c.tensor)},
      {"parallel.data", std::to_string(c.data)},
      {"parallel.zero", std::to_string(c.zero)},
      {"parallel.sequence_parallel", c.sequence_parallel ? "true" : "false"},
      {"recompute", std::string(name_of(c.recompute))}};
  if (c.context > 1) settings.emplace_back("parallel.context", std::to_string(c.context));
  if (c.expert > 1) settings.emplace_back("parallel.expert", std::to_string(c.expert));
  if (c.expert_tensor > 0) settings.emplace_back("parallel.expert_tensor", std::to_string(c.expert_tensor));
  if (chosen(c)) settings.emplace_back(c.held > 0 ? "schedule.name" : "schedule", std::string(form.name));
  if (c.held > 0) settings.emplace_back("schedule.memory", std::to_string(c.held));
  if (form.open_chunks()) settings.emplace_back("parallel.virtual_stages", std::to_string(c.chunks));
  if (exact.plan && exact.plan->schedule.chains.size() == 1) {
    std::vector<int> cuts;
    for (const int stage : exact.plan->schedule.chains.front())
      if (const int first = exact.plan->stages[static_cast<std::size_t>(stage)].first_unit; first > 0) cuts.push_back(first);
    settings.emplace_back("partition", fmt::format("[{}]", fmt::join(cuts, ", ")));
  }
  if (c.order == AxisOrder::PipelineNext)
    settings.emplace_back("placement", fmt::format("[{}]", fmt::join(placement_of(c), ", ")));
  return settings;
}

namespace {

// First unit of the block after / before a cut; -1 = none.
int moved_cut(const std::vector<UnitCost>& units, int cut, int by) {
  const int count = static_cast<int>(units.size());
  const auto block = [&](int u) -> const std::string& { return units[static_cast<std::size_t>(u)].block; };
  int u = cut;
  if (by > 0) {
    ++u;
    while (u < count && !block(u).empty() && block(u) == block(u - 1)) ++u;
    return u < count ? u : -1;
  }
  --u;
  while (u > 0 && !block(u).empty() && block(u) == block(u - 1)) --u;
  return u > 0 ? u : -1;
}

std::optional<Plan> with_cut_moved(const Plan& plan, const std::vector<UnitCost>& units, std::size_t cut, int by) {
  const std::vector<int>& chain = plan.schedule.chains.front();
  Plan moved = plan;
  StagePlan& before = moved.stages[static_cast<std::size_t>(chain[cut])];
  StagePlan& after = moved.stages[static_cast<std::size_t>(chain[cut + 1])];
  const int to = moved_cut(units, after.first_unit, by);
  if (to <= before.first_unit || to >= after.end_unit) return std::nullopt;
  before.end_unit = after.first_unit = to;
  return moved;
}

// As many microbatches as show the steady state: which cuts are better does not depend on how long it lasts.
Configuration shortened(const Configuration& c) {
  Configuration few = c;
  if (chosen(c)) few.microbatches = std::min(c.microbatches, 4 * c.pipeline);
  return few;
}

void copy_cuts(const Plan& from, Plan& to) {
  for (std::size_t s = 0; s < from.stages.size(); ++s) to.stages[s] = from.stages[s];
}

}  // namespace

Exact improve_cuts(Evaluator& evaluator, const Exact& start, int most_evaluations) {
  if (start.plan->schedule.chains.size() != 1 || form_of(start.configuration).last()) return start;
  const Configuration few = shortened(start.configuration);
  Exact best = evaluator.evaluate(few);
  if (!best.usable()) return start;
  const CostModel& model = evaluator.model(few);
  const std::vector<UnitCost>& units = model.units(model.scenario().cluster.devices.front().type).units;
  int evaluations = 0;
  bool moved_any = false;
  for (bool better = true; better && evaluations < most_evaluations;) {
    better = false;
    const Plan plan = *best.plan;
    for (std::size_t cut = 0; cut + 1 < plan.stages.size(); ++cut) {
      for (const int by : {-1, 1}) {
        const std::optional<Plan> moved = with_cut_moved(plan, units, cut, by);
        if (!moved || ++evaluations > most_evaluations) continue;
        const Exact next = evaluator.evaluate(few, *moved);
        if (next.usable() && next.step_time < best.step_time) best = next, better = moved_any = true;
      }
    }
  }
  if (!moved_any) return start;
  Plan plan = *start.plan;
  copy_cuts(*best.plan, plan);
  Exact whole = evaluator.evaluate(start.configuration, plan);
  whole.bound = start.bound;
  return whole.usable() && whole.step_time < start.step_time ? whole : start;
}

}  // namespace panpipe::planner
