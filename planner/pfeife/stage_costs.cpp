#include "planner/pfeife/stage_costs.hpp"

#include <algorithm>
#include <cmath>

#include "costmodel/plan/pass_rules.hpp"

namespace panpipe::planner {
namespace {

constexpr double kTicksPerSecond = 1e12;
// Slopes of the host's bound are taken numerically; floors stay below it by more than that is wrong.
constexpr double kSlopeSafety = 1 - 1e-7;

double difference(const Sums& sums, int first, int end) {
  return sums[static_cast<std::size_t>(end)] - sums[static_cast<std::size_t>(first)];
}

}  // namespace

StageCosts::StageCosts(const Scenario& scenario, const LoweringCosts& costs, int pipeline)
    : costs_(costs), jitter_(costs.stage_jitter(pipeline)) {
  types_.resize(std::max<std::size_t>(1, scenario.cluster.types.size()));
  std::vector<bool> used(types_.size(), false);
  for (const Device& device : scenario.cluster.devices) used[index(device.type)] = true;
  for (std::size_t type = 0; type < types_.size(); ++type) {
    if (!used[type]) continue;
    const WorkloadCost& workload = costs.workload(static_cast<int>(type));
    if (modes_.empty()) choose_modes(scenario, workload);
    for (const Recompute mode : modes_) sum_units(workload, mode, types_[type].of_mode[index(mode)]);
    make_floors(types_[type], static_cast<int>(type));
    if (units_ > 0) continue;
    units_ = static_cast<int>(workload.units.size());
    elements_.push_back(0);
    given_optimizer_.push_back(0);
    for (const UnitCost& unit : workload.units) {
      std::int64_t elements = elements_.back();
      for (const ParameterUse& use : unit.parameters) elements += use.elements;
      elements_.push_back(elements);
      given_optimizer_.push_back(given_optimizer_.back() + unit.optimizer.base());
    }
  }
}

void StageCosts::choose_modes(const Scenario& scenario, const WorkloadCost& workload) {
  modes_ = {scenario.recompute};
  if (!is_open(scenario, "recompute") || scenario.memory_model == MemoryModelKind::Pfeife) return;  // which does not know it
  const auto saved = [&](Bytes UnitCost::*bytes) {
    Bytes sum(0);
    for (const UnitCost& unit : workload.units) sum += unit.block.empty() ? unit.saved : unit.*bytes;
    return sum;
  };
  Bytes least = saved(&UnitCost::saved);
  for (const auto& [mode, bytes] :
       {std::pair(Recompute::Selective, &UnitCost::saved_selective), std::pair(Recompute::Full, &UnitCost::saved_full)}) {
    if (saved(bytes) >= least) continue;
    least = saved(bytes);
    modes_.push_back(mode);
  }
}

// As the lowering puts a unit's pieces one behind another; a hidden collective runs beside the piece after it.
void StageCosts::add_pass(PassSums& sums, std::size_t unit, const PassCost& pass, bool may_hide) {
  double time = 0, hidden = 0;
  for (const Piece& piece : pass.pieces) {
    if (piece.collective) {
      exact_ = false;
      (may_hide && piece.hidden_behind_next ? hidden : time) += piece.time.base();
      continue;
    }
    const double alone = piece.time.base();
    time += hidden > 0 ? std::max(hidden, alone + costs_.overlap_slowdown(Duration(std::min(alone, hidden)), 0).base()) : alone;
    hidden = 0;
  }
  (pass.synchronises ? sums.synchronous : sums.device)[unit + 1] += time + hidden;
  sums.launches[unit + 1] += pass.launches;
}

void StageCosts::sum_units(const WorkloadCost& workload, Recompute recompute, Passes& passes) {
  const std::size_t n = workload.units.size();
  for (PassSums& sums : passes) sums.device = sums.synchronous = sums.launches = Sums(n + 1, 0);
  PassSums &forward = passes[index(ActionKind::F)], &input = passes[index(ActionKind::I)];
  PassSums &weight = passes[index(ActionKind::W)], &whole = passes[index(ActionKind::B)];
  for (std::size_t u = 0; u < n; ++u) {
    const UnitCost& unit = workload.units[u];
    add_pass(forward, u, unit.forward, true);
    if (recompute != Recompute::None && !unit.block.empty())
      for (PassSums* sums : {&input, &whole})
        add_pass(*sums, u, recompute == Recompute::Full ? unit.recompute_full : unit.recompute_selective, true);
    add_pass(input, u, unit.input_gradient, false);
    add_pass(weight, u, unit.weight_gradient, true);
    if (unit.backward) {
      add_pass(whole, u, *unit.backward, true);
    } else {
      add_pass(whole, u, unit.input_gradient, true);
      add_pass(whole, u, unit.weight_gradient, true);
    }
  }
  for (PassSums& sums : passes) {
    for (Sums* row : {&sums.device, &sums.synchronous, &sums.launches})
      for (std::size_t u = 0; u < n; ++u) (*row)[u + 1] += (*row)[u];
    synchronous_ = synchronous_ || sums.synchronous.back() > 0;
    sums.ticks = sums.device;
    for (double& ticks : sums.ticks) ticks *= jitter_ * kTicksPerSecond;
  }
}

double StageCosts::host_factor(double device, double launches, int type) const {
  if (device <= 0) return 1;
  return costs_.host_bound(Duration(device), static_cast<int>(launches), type).base() / device;
}

// The host's bound is convex and homogeneous in (device time, launches): a supporting line at the model's own ratio is a floor.
void StageCosts::make_floors(OfType& type, int device_type) {
  const Passes& fastest = type.of_mode[index(modes_.front())];
  for (std::size_t kind = 0; kind < fastest.size(); ++kind) {
    const PassSums& sums = fastest[kind];
    const double device = sums.device.back(), launches = sums.launches.back();
    double per_second = 1, per_launch = 0;
    const auto bound = [&](double seconds) {
      return costs_.host_bound(Duration(seconds), static_cast<int>(launches), device_type).base();
    };
    if (device > 0 && bound(device) != device) {
      host_counts_ = true;
      constexpr double kStep = 1e-4;
      per_second = std::clamp((bound(device * (1 + kStep)) - bound(device * (1 - kStep))) / (2 * kStep * device), 0.0, 1.0);
      per_launch = launches > 0 ? (bound(device) - per_second * device) / launches * kSlopeSafety : 0;
      per_second *= kSlopeSafety;
    }
    Sums& floor = type.floor[kind];
    floor.resize(sums.device.size());
    for (std::size_t u = 0; u < floor.size(); ++u)
      floor[u] = (per_second * sums.device[u] + per_launch * sums.launches[u] + sums.synchronous[u]) * jitter_ * kTicksPerSecond;
  }
}

double StageCosts::ticks(ActionKind kind, int type, int first, int end, bool all_in_weight, Recompute mode) const {
  const std::optional<ActionKind> done = work_of_pass(kind, all_in_weight);
  if (!done) return 0;
  kind = *done;
  const Passes& of = types_[index(type)].of_mode[index(mode)];
  const PassSums& sums = of[index(kind)];
  const double device = difference(sums.device, first, end), synchronous = difference(sums.synchronous, first, end);
  const double factor = host_counts_ ? host_factor(device, difference(sums.launches, first, end), type) : 1;
  const double ticks = rounded(device * factor * jitter_ * kTicksPerSecond);
  return synchronous == 0 ? ticks : ticks + rounded(synchronous * jitter_ * kTicksPerSecond);
}

const double* StageCosts::plain_ticks(ActionKind kind, int type, bool all_in_weight, Recompute mode) const {
  const std::optional<ActionKind> done = work_of_pass(kind, all_in_weight);
  if (host_counts_ || synchronous_ || !done) return nullptr;
  return types_[index(type)].of_mode[index(mode)][index(*done)].ticks.data();
}

}  // namespace panpipe::planner
