#include "planner/pfeife/memory_reach.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace panpipe::planner {
namespace {

// Bytes that a parameter takes on a device in all its copies: per element, and per byte of one that is given in bytes.
std::pair<double, double> bytes_of_parameter(const SearchSpace& space) {
  const Scenario& scenario = space.scenario();
  const LoweringCosts& costs = space.costs();
  if (scenario.memory_model == MemoryModelKind::Pfeife) return {4 * costs.parameter_bytes(), 4};
  const auto divided = [&](int zero) { return scenario.parallel.zero >= zero ? 1.0 / scenario.parallel.data : 1.0; };
  return {costs.parameter_bytes() + costs.gradient_bytes() + costs.optimizer_bytes(), divided(3) + divided(2)};
}

double kept_bytes(const UnitCost& unit, Recompute mode) {
  if (unit.block.empty() || mode == Recompute::None) return static_cast<double>(unit.saved.base());
  return static_cast<double>((mode == Recompute::Full ? unit.saved_full : unit.saved_selective).base());
}

}  // namespace

MemoryReach::MemoryReach(const CutEvaluator& evaluator) : units_(evaluator.space().units()) {
  const SearchSpace& space = evaluator.space();
  const Scenario& scenario = space.scenario();
  const Schedule& schedule = evaluator.schedule();
  const auto stages = static_cast<std::size_t>(evaluator.stages());
  std::vector<int> whole(static_cast<std::size_t>(units_) + 1, units_);
  reach_.assign(stages, whole);
  bool known = schedule.splits == 1;
  for (const auto& row : schedule.order)
    for (const Action& action : row) known = known && action.kind != ActionKind::R;
  if (!known) return;
  const double context =
      scenario.memory_model == MemoryModelKind::Pfeife ? 0 : static_cast<double>(space.costs().framework_context().base());
  const double factor = scenario.memory_model == MemoryModelKind::Pfeife ? 1 : space.costs().allocator_factor();
  for (std::size_t k = 0; k < stages; ++k) {
    const int rank = evaluator.rank_of(static_cast<int>(k));
    sum_units(space, space.type_of_rank(rank));
    const DeviceType& type = scenario.cluster.type_of(space.device_of_rank(rank));
    const double limit = std::floor(static_cast<double>(type.memory.base()) * scenario.usable);
    constexpr double kRounding = 64;  // bytes: parts are rounded one by one
    if (limit > 0) fill(evaluator, k, (limit - context) / factor + kRounding);
  }
}

void MemoryReach::sum_units(const SearchSpace& space, int type) {
  if (type == type_) return;
  type_ = type;
  const WorkloadCost& workload = space.costs().workload(type);
  const bool pfeife = space.scenario().memory_model == MemoryModelKind::Pfeife;
  const auto [per_element, per_byte] = bytes_of_parameter(space);
  const std::vector<Recompute>& modes = space.stages().modes();
  fixed_.assign(1, 0);
  for_weight_.assign(1, 0);
  kept_.assign(modes.size(), Sums(1, 0));
  std::set<int> seen;
  for (const UnitCost& unit : workload.units) {
    double fixed = 0;
    for (const ParameterUse& use : unit.parameters) {
      if (use.tensor >= 0 && !seen.insert(use.tensor).second) continue;
      fixed += static_cast<double>(use.elements) * per_element + static_cast<double>(use.given.base()) * per_byte;
    }
    fixed_.push_back(fixed_.back() + fixed);
    double least = static_cast<double>(unit.saved.base());
    for (std::size_t m = 0; m < modes.size(); ++m) {
      kept_[m].push_back(kept_[m].back() + kept_bytes(unit, modes[m]));
      least = std::min(least, kept_bytes(unit, modes[m]));
    }
    const double weight = pfeife ? static_cast<double>(unit.saved.base()) : static_cast<double>(unit.kept_for_weight.base());
    for_weight_.push_back(for_weight_.back() + std::clamp(weight, std::min(least, 0.0), std::max(least, 0.0)));
  }
}

// All pairs that a stage comes to while its rank's order goes on, less those that others exceed.
std::vector<MemoryReach::Open> MemoryReach::open_of(const Schedule& schedule, int rank, int stage, bool until_weight) {
  std::vector<Open> found;
  Open now;
  for (const Action& action : schedule.order[static_cast<std::size_t>(rank)]) {
    if (!action.is_compute() || action.stage != stage) continue;
    if (action.kind == ActionKind::F) ++now.whole;
    if (action.kind == ActionKind::B) --now.whole;
    if (action.kind == ActionKind::I) {
      --now.whole;
      if (until_weight) ++now.for_weight;
    }
    if (action.kind == ActionKind::W && until_weight) --now.for_weight;
    if (action.kind != ActionKind::F) continue;
    const auto exceeds = [](const Open& a, const Open& b) { return a.whole >= b.whole && a.for_weight >= b.for_weight; };
    if (std::any_of(found.begin(), found.end(), [&](const Open& known) { return exceeds(known, now); })) continue;
    std::erase_if(found, [&](const Open& known) { return exceeds(now, known); });
    found.push_back(now);
  }
  return found;
}

void MemoryReach::fill(const CutEvaluator& evaluator, std::size_t position, double limit) {
  const Schedule& schedule = evaluator.schedule();
  const int stage = schedule.chains.front()[position], rank = evaluator.rank_of(static_cast<int>(position));
  const std::vector<Open> open = open_of(schedule, rank, stage, evaluator.uses(ActionKind::W));
  const auto between = [](const Sums& sums, int first, int end) {
    return sums[static_cast<std::size_t>(end)] - sums[static_cast<std::size_t>(first)];
  };
  const auto fits = [&](int first, int end) {
    const double fixed = between(fixed_, first, end), weight = between(for_weight_, first, end);
    return std::any_of(kept_.begin(), kept_.end(), [&](const Sums& kept) {
      const double whole = between(kept, first, end);
      return std::all_of(open.begin(), open.end(),
                         [&](const Open& o) { return fixed + o.whole * whole + o.for_weight * weight <= limit; });
    });
  };
  const auto rises = [](const Sums& sums) { return std::is_sorted(sums.begin(), sums.end()); };
  if (!rises(for_weight_) || !std::all_of(kept_.begin(), kept_.end(), rises)) return;  // measured activations may be negative
  const int last = units_ - (evaluator.stages() - 1 - static_cast<int>(position));
  if (fits(static_cast<int>(position), last)) return;  // as far as the units for the others let it
  int end = 0;
  for (int first = 0; first < units_; ++first) {
    end = std::max(end, first);
    while (end < units_ && fits(first, end + 1)) ++end;
    reach_[position][static_cast<std::size_t>(first)] = end;
    binds_ = binds_ || (first >= static_cast<int>(position) && end < last);
  }
}

}  // namespace panpipe::planner
