#include "planner/auto/exact.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "base/error.hpp"
#include "costmodel/degrees/axes.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "costmodel/lowering/idle_lowering.hpp"
#include "costmodel/plan/host_memory.hpp"
#include "costmodel/plan/model_costs.hpp"
#include "costmodel/plan/most_recompute.hpp"
#include "costmodel/scenario/recompute_modes.hpp"
#include "costmodel/timeline/memory_curve.hpp"
#include "costmodel/timeline/memory_room.hpp"
#include "costmodel/timeline/step_time.hpp"
#include "planner/auto/cut_trials.hpp"
#include "schedule/memory/memory_actions.hpp"

namespace panpipe::planner {
namespace {

constexpr std::size_t kMostVariants = 24;
constexpr int kMovesEach = 96;    // estimates of one plan with moved cuts
constexpr int kFittingEach = 32;  // the same for a plan that does not fit
constexpr int kReceivers = 3;     // of a block, of which the fastest is taken

std::vector<int> placement_of(const Configuration& c) {
  std::vector<int> devices;
  devices.reserve(c.device_count());
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

PlanRequest request_for(const Configuration& c, const Scenario& base, UnitSums& sums) {
  PlanRequest request = request_of(base);
  request.degrees = c;
  request.degrees.virtual_stages = base.degrees.virtual_stages;
  const bool by_stage = !base.recompute_scope.firsts.empty();  // as stated
  request.recompute = by_stage ? base.recompute : c.recompute;
  if (c.order == AxisOrder::PipelineNext) request.placement = placement_of(c);
  if (!chosen(c)) return request;
  const FamilyForm& form = form_of(c);
  request.schedule.name = form.name;
  request.schedule.csv.clear();
  request.schedule.options = form.options(c.virtual_stages);
  for (const auto& [option, value] : memory_options())  // of an open schedule: the search's, not a family's
    if (const auto stated = base.schedule.options.find(std::string(option)); stated != base.schedule.options.end())
      request.schedule.options.insert(*stated);
  request.degrees.virtual_stages = form.open_chunks() ? c.virtual_stages : 1;
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
  if (const auto known = variants_.find(c.of_graph()); known != variants_.end()) return *known->second;
  if (variants_.size() > kMostVariants) variants_.clear();  // never where one is known: callers hold it
  auto made = std::make_unique<Variant>(base_.scenario, c, common_.calibrations, common_.cuts);
  return *variants_.emplace(c.of_graph(), std::move(made)).first->second;
}

PlanRequest Evaluator::request(const Configuration& c, const ScheduleOptions& options) {
  PlanRequest request = request_for(c, base_.scenario, variant(c).sums);
  for (const auto& [key, value] : options) request.schedule.options[key] = value;
  return request;
}

TaskGraph Evaluator::lowered(const Configuration& c, const Plan& plan) {
  return lower(base_.scenario, plan, RememberingCosts(variant(c).model, plan, collectives_));
}

const std::vector<StageCost>& Evaluator::stages(const Configuration& c) {
  return variant(c).sums.table(c.recompute, c.stages()).stages;
}

Exact Evaluator::evaluate(const Configuration& configuration, const Plan& plan) {
  const RememberingCosts costs(variant(configuration).model, plan, collectives_);
  const TaskGraph graph = lower_for_idle_links(base_.scenario, plan, costs);
  const TaskTimes times = estimate_times(graph);
  Exact exact;
  exact.configuration = configuration;
  exact.plan = std::make_shared<const Plan>(plan);
  // The parts of a prediction that the search compares, by the functions that make them there, without the spans.
  exact.step_time = to_duration(step_time(graph, times)).base();
  exact.fits = true;
  exact.room.assign(plan.pipeline, kInfinite);
  std::size_t rank = 0;
  for (const DeviceTimeline& device : memory_of_ranks(graph, times)) {
    exact.memory = std::max(exact.memory, static_cast<double>(device.peak.base()));
    exact.fits = exact.fits && panpipe::fits(device);
    double& room = exact.room[rank++ % exact.room.size()];
    if (device.limit > Bytes(0)) room = std::min(room, static_cast<double>((device.limit - device.peak).base()));
  }
  return exact;
}

Exact Evaluator::evaluate(const Configuration& configuration, const ScheduleOptions& options) {
  Exact none;
  none.configuration = configuration;
  try {
    const CostModel& own = model(configuration);
    const Plan plan = make_plan(base_.scenario, request(configuration, options), own);
    check_host_memory(base_.scenario, plan, own);
    Exact exact = evaluate(configuration, plan);
    exact.options = options;
    return exact;
  } catch (const InputError& error) {
    none.fault = error.diagnostics().empty() ? error.what() : error.diagnostics().front().message;
  } catch (const NoAnswer& error) {
    none.fault = error.what();
  }
  return none;
}

namespace {

std::string recompute_setting(const Exact& exact, const RecomputeScope& scope) {
  const std::vector<int> blocks = exact.plan ? first_blocks(*exact.plan) : std::vector<int>();
  const Recompute mode = exact.configuration.recompute;
  const bool named = mode == Recompute::Selective && !scope.attention_only();
  if (blocks.empty() && !named) return std::string(name_of(mode));
  std::vector<std::string> parts;
  if (mode == Recompute::Selective) parts.push_back(fmt::format("operators: [{}]", names_of(scope.operators)));
  if (!blocks.empty()) parts.push_back(fmt::format("first: [{}]", fmt::join(blocks, ", ")));
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> settings_of(const Exact& exact, const RecomputeScope& scope) {
  const Configuration& c = exact.configuration;
  const FamilyForm& form = form_of(c);
  std::vector<std::pair<std::string, std::string>> settings = {{"batch.micro", std::to_string(c.micro)},
                                                               {"batch.microbatches", std::to_string(c.microbatches)}};
  for (const auto& [key, value] : written_degrees(c)) settings.emplace_back("parallel." + key, value);
  settings.emplace_back("recompute", recompute_setting(exact, scope));
  if (chosen(c)) settings.emplace_back(exact.options.empty() ? "schedule" : "schedule.name", std::string(form.name));
  for (const auto& [key, value] : exact.options)  // a list of numbers is a text to YAML
    settings.emplace_back("schedule." + key, value.find(',') == std::string::npos ? value : fmt::format("\"{}\"", value));
  if (form.open_chunks()) settings.emplace_back("parallel.virtual_stages", std::to_string(c.virtual_stages));
  if (exact.plan && exact.plan->schedule.chains.size() == 1 && !slot_counts(exact.plan->schedule).any()) {
    std::vector<int> cuts;
    for (const int stage : exact.plan->schedule.chains.front())
      if (const int first = exact.plan->stages[stage].first_unit; first > 0) cuts.push_back(first);
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
  const auto block = [&](int u) -> const std::string& { return units[u].block; };
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

// False if a stage would hold nothing.
bool move_cut(Plan& plan, const std::vector<UnitCost>& units, std::size_t cut, int by) {
  const std::vector<int>& chain = plan.schedule.chains.front();
  StagePlan& before = plan.stages[chain[cut]];
  StagePlan& after = plan.stages[chain[cut + 1]];
  const int to = moved_cut(units, after.first_unit, by);
  if (to <= before.first_unit || to >= after.end_unit) return false;
  before.end_unit = after.first_unit = to;
  return true;
}

// One block less for the stage at `from` of the chain, one more for that at `to`; those between them pass theirs on.
std::optional<Plan> with_block_moved(const Plan& plan, const std::vector<UnitCost>& units, std::size_t from, std::size_t to) {
  std::optional<Plan> moved = plan;
  for (std::size_t at = from; moved && at != to; at = from < to ? at + 1 : at - 1)
    if (!move_cut(*moved, units, from < to ? at : at - 1, from < to ? -1 : 1)) moved.reset();
  return moved;
}

double missing(const Exact& exact) {
  double bytes = 0;
  for (const double room : exact.room) bytes += std::max(0.0, -room);
  return bytes;
}

// A block leaves the stage at `from` of the chain for that at `to`, whose rank then works `work` seconds for a microbatch.
struct BlockMove {
  double work = 0;
  std::size_t from = 0, to = 0;
  bool operator<(const BlockMove& other) const {
    const auto distance = [](const BlockMove& move) { return move.from < move.to ? move.to - move.from : move.from - move.to; };
    return std::tuple(work, distance(*this), from, to) < std::tuple(other.work, distance(other), other.from, other.to);
  }
};

// Seconds of work for a microbatch, by pipeline rank.
std::vector<double> work_of_ranks(const UnitSums& sums, const Exact& now) {
  std::vector<double> work(now.room.size());
  for (std::size_t s = 0; s < now.plan->stages.size(); ++s) {
    const StagePlan& stage = now.plan->stages[s];
    work[static_cast<std::size_t>(now.plan->schedule.stage_to_rank[s])] +=
        sums.time(stage.recompute, stage.first_unit, stage.end_unit);
  }
  return work;
}

// From a rank to those that have room and do not work more than `most_work` then, the least busy first.
std::vector<BlockMove> moves_from(std::size_t giver, const UnitSums& sums, const Exact& now, double most_work) {
  const Plan& plan = *now.plan;
  const std::vector<int>& chain = plan.schedule.chains.front();
  const auto rank_of = [&](std::size_t s) { return static_cast<std::size_t>(plan.schedule.stage_to_rank[chain[s]]); };
  const std::vector<double> work = work_of_ranks(sums, now);
  const double block = sums.time(plan.stages.front().recompute, 0, sums.units()) / sums.most_stages();
  std::vector<BlockMove> moves;
  for (std::size_t from = 0; from < chain.size(); ++from)
    for (std::size_t to = 0; to < chain.size() && rank_of(from) == giver; ++to)
      if (rank_of(to) != giver && now.room[rank_of(to)] > 0 && work[rank_of(to)] + block <= most_work)
        moves.push_back({work[rank_of(to)], from, to});
  std::sort(moves.begin(), moves.end());
  return moves;
}

// The fastest of a few plans with a moved block that `helps`; `evaluate` gives nothing where it is enough.
template <class Evaluate, class Helps>
Exact best_move(const std::vector<BlockMove>& moves, const Exact& now, const std::vector<UnitCost>& units, Evaluate evaluate,
                Helps helps) {
  Exact best;
  int tried = 0;
  double work = -1;
  for (const BlockMove& move : moves) {
    if (best.plan && move.work < work * (1 + 1e-6)) continue;  // another rank with as much work
    const std::optional<Plan> moved = with_block_moved(*now.plan, units, move.from, move.to);
    if (!moved) continue;
    std::optional<Exact> next = evaluate(*moved);
    if (!next) return {};
    if (helps(*next) && (!best.plan || next->step_time < best.step_time)) best = std::move(*next);
    work = move.work;
    if (++tried >= kReceivers && best.plan) break;
  }
  return best;
}

}  // namespace

Exact fit_cuts(Evaluator& evaluator, const Configuration& configuration, double enough) {
  const CutTrials trials(evaluator, configuration);
  if (!trials.possible()) return {};
  const std::vector<UnitCost>& units = units_of(evaluator, configuration);
  const double most_work = enough / configuration.microbatches;
  int evaluations = 0;
  const auto evaluate = [&](const Plan& plan) -> std::optional<Exact> {
    if (++evaluations > kFittingEach || evaluator.common().stopped()) return std::nullopt;
    return trials(plan);
  };
  Exact now = trials(trials.balanced());
  while (!now.fits) {
    const auto fullest = static_cast<std::size_t>(std::min_element(now.room.begin(), now.room.end()) - now.room.begin());
    Exact best = best_move(moves_from(fullest, trials.sums(), now, most_work), now, units, evaluate,
                           [&](const Exact& next) { return missing(next) < missing(now); });
    if (!best.plan) return {};
    now = std::move(best);
  }
  return with_stages(evaluator, configuration, now.plan->stages);
}

Exact improve_cuts(Evaluator& evaluator, const Exact& start) {
  if (start.plan->schedule.chains.size() != 1 || form_of(start.configuration).last()) return start;
  const CutTrials trials(evaluator, start.configuration);
  if (!trials.possible()) return start;
  Exact best = trials(*start.plan);
  if (!best.usable()) return start;
  const std::vector<UnitCost>& units = units_of(evaluator, start.configuration);
  int evaluations = 0;
  bool moved_any = false;
  const auto evaluate = [&](const Plan& plan) -> std::optional<Exact> {
    if (++evaluations > kMovesEach || evaluator.common().stopped()) return std::nullopt;
    return trials(plan);
  };
  for (bool better = true; better && evaluations < kMovesEach && !evaluator.common().stopped();) {
    better = false;
    const Plan plan = *best.plan;
    for (std::size_t cut = 0; cut + 1 < plan.stages.size(); ++cut) {
      for (const auto& [from, to] : {std::pair(cut, cut + 1), std::pair(cut + 1, cut)}) {
        const std::optional<Plan> moved = with_block_moved(plan, units, from, to);
        const std::optional<Exact> next = moved ? evaluate(*moved) : std::nullopt;
        if (next && next->usable() && next->step_time < best.step_time) best = *next, better = moved_any = true;
      }
    }
    if (better) continue;
    // Neighbours take no block from each other: the busiest rank gives one to a rank further off. A later rank may work longer
    // than the busiest did, because fewer passes wait for it.
    const std::vector<double> work = work_of_ranks(trials.sums(), best);
    const auto busiest = static_cast<std::size_t>(std::max_element(work.begin(), work.end()) - work.begin());
    Exact next =
        best_move(moves_from(busiest, trials.sums(), best, kInfinite), best, units, evaluate, std::mem_fn(&Exact::usable));
    if (next.plan && next.step_time < best.step_time) best = std::move(next), better = moved_any = true;
  }
  if (!moved_any) return start;
  Plan plan = *start.plan;
  plan.stages = best.plan->stages;
  Exact whole = evaluator.evaluate(start.configuration, plan);
  whole.bound = start.bound;
  return whole.usable() && whole.step_time < start.step_time ? whole : start;
}

}  // namespace panpipe::planner
