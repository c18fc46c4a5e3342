#include "planner/auto/stage_recompute.hpp"

#include <algorithm>
#include <cmath>

#include "costmodel/plan/most_recompute.hpp"
#include "costmodel/scenario/trainer.hpp"
#include "planner/auto/cut_trials.hpp"

namespace panpipe::planner {
namespace {

constexpr int kFitsEach = 12;        // estimates that fit the recompute of one plan
constexpr int kBeforeHalving = 4;    // of them: by interpolation
constexpr int kRecomputeRounds = 3;  // of moving cuts, then fitting

int blocks_of_stage(const std::vector<UnitCost>& units, const StagePlan& stage) {
  int blocks = 0;
  for (int u = stage.first_unit; u < stage.end_unit; ++u)
    if (!units[u].block.empty() && (u == stage.first_unit || units[u - 1].block != units[u].block)) ++blocks;
  return blocks;
}

// Finds the fewest blocks of each rank, all ranks at a time: what a rank recomputes hardly changes another's memory.
class BlockFit {
 public:
  BlockFit(Evaluator& evaluator, const CutTrials& trials, const Configuration& configuration, double more = 0)
      : evaluator_(evaluator),
        trials_(trials),
        units_(units_of(evaluator, configuration)),
        mode_(configuration.recompute),
        spare_(evaluator.common().spare() + more) {}

  // False where a rank does not fit with all its blocks, or every rank takes all of them.
  bool run(Plan& plan) {
    ranks_.assign(static_cast<std::size_t>(plan.pipeline), {});
    for (std::size_t s = 0; s < plan.stages.size(); ++s)
      ranks_[rank_of(plan, static_cast<int>(s))].most += blocks_of_stage(units_, plan.stages[s]);
    if (!bracket(plan)) return false;
    for (int fits = 0; fits < kFitsEach && !evaluator_.common().stopped() && !decided(); ++fits) {
      for (Rank& rank : ranks_)
        if (!rank.decided()) rank.tried = next(rank, fits < kBeforeHalving);
      const std::vector<double> room = try_blocks(plan);
      for (std::size_t r = 0; r < ranks_.size(); ++r)
        if (!ranks_[r].decided()) take(ranks_[r], room[r]);
    }
    for (Rank& rank : ranks_) rank.tried = rank.most;
    write(plan);
    return !all_blocks(plan);
  }

 private:
  struct Rank {
    int least = 0, most = 0, tried = 0;  // blocks that do not fit, and that do; equal: known
    double room_least = 0, room_most = 0;
    bool decided() const { return most - least <= 1; }
  };

  static std::size_t rank_of(const Plan& plan, int stage) { return static_cast<std::size_t>(plan.schedule.stage_to_rank[stage]); }
  bool decided() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.decided(); });
  }

  bool bracket(Plan& plan) {
    for (Rank& rank : ranks_) rank.tried = rank.most;
    const std::vector<double> with = try_blocks(plan);
    if (with.empty() || std::any_of(with.begin(), with.end(), [&](double room) { return room < spare_; })) return false;
    for (Rank& rank : ranks_) rank.tried = 0;
    const std::vector<double> without = try_blocks(plan);
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].room_least = without[r];
      ranks_[r].room_most = with[r];
      if (without[r] >= spare_) ranks_[r].most = 0;
    }
    return true;
  }

  int next(const Rank& rank, bool interpolates) const {
    const double share =
        interpolates && rank.room_most > rank.room_least ? (spare_ - rank.room_least) / (rank.room_most - rank.room_least) : 0.5;
    const int more = static_cast<int>(std::ceil(share * (rank.most - rank.least) - 1e-9));
    return rank.least + std::clamp(more, 1, rank.most - rank.least - 1);
  }

  void take(Rank& rank, double room) const {
    (room >= spare_ ? rank.most : rank.least) = rank.tried;
    (room >= spare_ ? rank.room_most : rank.room_least) = room;
  }

  std::vector<double> try_blocks(Plan& plan) const {
    write(plan);
    return trials_(plan).room;
  }

  // Of a rank's stages the first in the model hold activations longest.
  void write(Plan& plan) const {
    std::vector<int> left;
    for (const Rank& rank : ranks_) left.push_back(rank.tried);
    for (const int s : plan.schedule.chains.front()) {
      StagePlan& stage = plan.stages[s];
      int& of_rank = left[rank_of(plan, s)];
      stage.recompute_first = std::min(of_rank, blocks_of_stage(units_, stage));
      stage.recompute = stage.recompute_first > 0 ? mode_ : Recompute::None;
      of_rank -= stage.recompute_first;
    }
  }

  bool all_blocks(const Plan& plan) const {
    return std::all_of(plan.stages.begin(), plan.stages.end(),
                       [&](const StagePlan& stage) { return stage.recompute_first == blocks_of_stage(units_, stage); });
  }

  const Evaluator& evaluator_;
  const CutTrials& trials_;
  const std::vector<UnitCost>& units_;
  Recompute mode_;
  double spare_;  // bytes that stay free on every device
  std::vector<Rank> ranks_;
};

// `cuts` null: those that balance the stages.
Exact fitted(Evaluator& evaluator, const Configuration& configuration, const std::vector<StagePlan>* cuts, double more) {
  const CutTrials trials(evaluator, configuration);
  if (!trials.possible()) return {};
  Plan plan = trials.balanced();
  if (cuts != nullptr) plan.stages = *cuts;
  if (!BlockFit(evaluator, trials, configuration, more).run(plan)) return {};
  return with_stages(evaluator, configuration, plan.stages);
}

}  // namespace

bool recomputes_by_stage(const Scenario& scenario) {
  return is_open(scenario, "recompute") && trainer_of(scenario).recomputes_by_stage &&
         scenario.schedule.options.count("recompute") == 0 && scenario.memory_model == MemoryModelKind::Full;
}

double RecomputeShare::step_within(double limit) const {
  if (memory_with > limit || memory_without <= memory_with) return kInfinite;
  const double share = std::clamp((memory_without - limit) / (memory_without - memory_with), 0.0, 1.0);
  return step_without + share * std::max(0.0, step_with - step_without);
}

Exact fit_recompute(Evaluator& evaluator, const Configuration& configuration) {
  return fitted(evaluator, configuration, nullptr, 0);
}

Exact fit_recompute(Evaluator& evaluator, const Exact& start, double more) {
  return fitted(evaluator, start.configuration, &start.plan->stages, more);
}

Exact improve_recompute(Evaluator& evaluator, const Exact& start) {
  const CutTrials trials(evaluator, start.configuration);
  if (!trials.possible()) return start;
  Exact best = start;
  for (int round = 0; round < kRecomputeRounds && !evaluator.common().stopped(); ++round) {
    const Exact moved = improve_cuts(evaluator, best);
    Plan plan = trials.balanced();
    plan.stages = moved.plan->stages;
    if (!BlockFit(evaluator, trials, start.configuration).run(plan)) break;
    Exact next = with_stages(evaluator, start.configuration, plan.stages);
    if (!next.usable() || next.step_time >= best.step_time) break;
    best = std::move(next);
  }
  best.bound = start.bound;
  return best;
}

}  // namespace panpipe::planner
