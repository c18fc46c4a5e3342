#include "planner/pfeife/memory_reach.hpp"

#include <algorithm>
#include <cmath>

#include "costmodel/plan/memory_model.hpp"

namespace panpipe::planner {
MemoryReach::MemoryReach(const CutEvaluator& evaluator) : units_(evaluator.space().units()) {
  const SearchSpace& space = evaluator.space();
  const Scenario& scenario = space.scenario();
  const Schedule& schedule = evaluator.schedule();
  const auto stages = static_cast<std::size_t>(evaluator.stages());
  std::vector<int> whole(units_ + 1, units_);
  reach_.assign(stages, whole);
  bool known = schedule.splits == 1;
  for (const auto& row : schedule.order)
    for (const Action& action : row) known = known && action.kind != ActionKind::R;
  if (!known) return;
  const MemoryModel model(scenario);
  const auto context = static_cast<double>(model.context(space.costs()).base());
  const double factor = model.allocator_factor(space.costs());
  const auto limit_of = [&](int rank) {
    const DeviceType& type = scenario.cluster.type_of(space.device_of_rank(rank));
    constexpr double kRounding = 64;  // bytes: parts are rounded one by one
    return (static_cast<double>(memory_limit(scenario, type).base()) - context) / factor + kRounding;
  };
  for (std::size_t k = 0; k < stages; ++k) {
    const int rank = evaluator.rank_of(static_cast<int>(k)), type = space.site_of_rank(rank);
    if (types_.count(type) == 0) types_.emplace(type, sum_units(space, type));
    parts_.push_back(&types_.at(type).least);
    if (limit_of(rank) > 0) fill(evaluator, k, types_.at(type), limit_of(rank));
  }
  for (int rank = 0; rank < space.ranks(); ++rank)
    if (limit_of(rank) > 0) add_rows(evaluator, rank, limit_of(rank));
}

MemoryReach::OfType MemoryReach::sum_units(const SearchSpace& space, int type) {
  const WorkloadCost& workload = space.costs().workload(type);
  const MemoryModel model(space.scenario());
  const StateBytes state = model.state(space.costs(), space.scenario().degrees);
  const std::vector<Recompute>& modes = space.stages().modes();
  OfType of;
  for (Sums& sums : of.least) sums.assign(1, 0);
  of.kept.assign(modes.size(), Sums(1, 0));
  for (int u = 0; u < space.units(); ++u) {
    const UnitCost& unit = workload.units[u];
    const auto kept = [&](Recompute mode) {
      // If blocks are recomputed together, only the first keeps its input.
      if (mode == Recompute::Full && workload.recompute_chunk > 1 && !unit.block.empty()) return 0.0;
      return static_cast<double>(model.kept(unit, mode).base());
    };
    double least = kept(modes.front());
    for (std::size_t m = 0; m < modes.size(); ++m) {
      of.kept[m].push_back(of.kept[m].back() + kept(modes[m]));
      least = std::min(least, kept(modes[m]));
    }
    const auto weight = static_cast<double>(model.kept_for_weight(unit).base());
    of.least[0].push_back(state.always(space.stages().held(0, u + 1)));
    of.least[1].push_back(of.least[1].back() + least);
    of.least[2].push_back(of.least[2].back() + std::clamp(weight, std::min(least, 0.0), std::max(least, 0.0)));
  }
  return of;
}

void MemoryReach::count(Open& open, ActionKind kind, bool until_weight) {
  if (kind == ActionKind::F) ++open.whole;
  if (starts_backward(kind)) --open.whole;
  if (kind == ActionKind::I && until_weight) ++open.for_weight;
  if (kind == ActionKind::W && until_weight) --open.for_weight;
}

// What these stages of a rank have open at once, after each of their forwards, less what other moments exceed.
std::vector<std::vector<MemoryReach::Open>> MemoryReach::open_of(const Schedule& schedule, int rank,
                                                                 const std::vector<int>& stages, bool until_weight) {
  std::vector<std::vector<Open>> found;
  std::vector<Open> now(stages.size());
  const auto exceeds = [](const std::vector<Open>& a, const std::vector<Open>& b) {
    return std::equal(a.begin(), a.end(), b.begin(),
                      [](const Open& x, const Open& y) { return x.whole >= y.whole && x.for_weight >= y.for_weight; });
  };
  for (const Action& action : schedule.order[rank]) {
    const auto stage = std::find(stages.begin(), stages.end(), action.stage);
    if (!action.is_compute() || stage == stages.end()) continue;
    count(now[stage - stages.begin()], action.kind, until_weight);
    if (action.kind != ActionKind::F) continue;
    if (std::any_of(found.begin(), found.end(), [&](const auto& known) { return exceeds(known, now); })) continue;
    std::erase_if(found, [&](const auto& known) { return exceeds(now, known); });
    found.push_back(now);
  }
  return found;
}

void MemoryReach::add_rows(const CutEvaluator& evaluator, int rank, double limit) {
  const Schedule& schedule = evaluator.schedule();
  std::vector<std::size_t> positions;
  std::vector<int> stages;
  for (std::size_t k = 0; k < reach_.size(); ++k) {
    if (evaluator.rank_of(static_cast<int>(k)) != rank) continue;
    positions.push_back(k);
    stages.push_back(schedule.chains.front()[k]);
  }
  if (positions.size() < 2) return;  // what a stage alone may hold is its reach
  for (const std::vector<Open>& open : open_of(schedule, rank, stages, evaluator.uses(ActionKind::W))) {
    Row row{{}, limit};
    double all = 0;  // if every stage were the whole model
    for (std::size_t j = 0; j < positions.size(); ++j) {
      row.held.push_back({positions[j], {1.0, static_cast<double>(open[j].whole), static_cast<double>(open[j].for_weight)}});
      for (std::size_t part = 0; part < 3; ++part)
        all = std::max(all, 0.0) + row.held.back().second[part] * parts(positions[j])[part].back();
    }
    if (all > limit) rows_.push_back(std::move(row));
  }
}

const MemoryReach::Row* MemoryReach::most_exceeded(const Cuts& cuts) const {
  const Row* worst = nullptr;
  double most = 1;
  for (const Row& row : rows_) {
    double sum = 0;
    for (const auto& [position, factors] : row.held) {
      const auto first = static_cast<std::size_t>(position == 0 ? 0 : cuts[position - 1]);
      const auto end = static_cast<std::size_t>(position < cuts.size() ? cuts[position] : units_);
      for (std::size_t part = 0; part < 3; ++part)
        sum += factors[part] * (parts(position)[part][end] - parts(position)[part][first]);
    }
    if (sum <= most * row.limit) continue;
    most = sum / row.limit;
    worst = &row;
  }
  return worst;
}

void MemoryReach::fill(const CutEvaluator& evaluator, std::size_t position, const OfType& of, double limit) {
  const Schedule& schedule = evaluator.schedule();
  const int stage = schedule.chains.front()[position], rank = evaluator.rank_of(static_cast<int>(position));
  const std::vector<std::vector<Open>> open = open_of(schedule, rank, {stage}, evaluator.uses(ActionKind::W));
  const auto between = [](const Sums& sums, int first, int end) { return sums[end] - sums[first]; };
  const auto fits = [&](int first, int end) {
    const double fixed = between(of.least[0], first, end), weight = between(of.least[2], first, end);
    return std::any_of(of.kept.begin(), of.kept.end(), [&](const Sums& kept) {
      const double whole = between(kept, first, end);
      return std::all_of(open.begin(), open.end(),
                         [&](const auto& o) { return fixed + o[0].whole * whole + o[0].for_weight * weight <= limit; });
    });
  };
  const auto rises = [](const Sums& sums) { return std::is_sorted(sums.begin(), sums.end()); };
  if (!rises(of.least[2]) || !std::all_of(of.kept.begin(), of.kept.end(), rises)) return;  // measured activations may be negative
  const int last = units_ - (evaluator.stages() - 1 - static_cast<int>(position));
  if (fits(static_cast<int>(position), last)) return;  // as far as the units for the others let it
  int end = 0;
  for (int first = 0; first < units_; ++first) {
    end = std::max(end, first);
    while (end < units_ && fits(first, end + 1)) ++end;
    reach_[position][first] = end;
    binds_ = binds_ || (first >= static_cast<int>(position) && end < last);
  }
}

}  // namespace panpipe::planner
