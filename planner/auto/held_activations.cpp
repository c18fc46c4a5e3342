#include "planner/auto/held_activations.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "planner/auto/open_offload.hpp"
#include "schedule/find_family.hpp"

namespace panpipe::planner {
namespace {

constexpr int kMostHeld = 4;  // times what zb-h1 and zb-v hold: more memory ends no more waiting

bool is_better(const Exact& one, const Exact& other, double with_room) {
  if (!one.usable() || !other.usable()) return one.usable();
  const bool roomy = one.memory <= with_room, other_roomy = other.memory <= with_room;
  return roomy != other_roomy ? roomy : one < other;
}

// One limit for all ranks.
Exact fit_alike(Evaluator& evaluator, const Configuration& c) {
  const int own = c.stages();
  const auto holding = [&](int held) { return evaluator.evaluate(c, {{"memory", std::to_string(held)}}); };
  Exact best = holding(own);
  if (best.step_time == 0) return best;
  double each = 0;  // bytes of one more microbatch in flight on the fullest rank, at most
  for (const StageCost& stage : evaluator.stages(c)) each = std::max(each, static_cast<double>(stage.kept));
  const SearchFacts& facts = evaluator.common().facts;
  each *= facts.allocator;
  const double limit = static_cast<double>(facts.limit), with_room = evaluator.common().limit_with_room;
  const double more = each > 0 ? std::floor(((best.memory <= with_room ? with_room : limit) - best.memory) / each) : 0;
  int held = static_cast<int>(std::clamp(own + more, 2.0, static_cast<double>(kMostHeld * own)));
  constexpr int kTries = 3;  // the fullest moment may be another one then
  for (int i = 0; i < kTries && held >= 2 && held != own; ++i, --held) {
    Exact next = holding(held);
    if (!next.usable()) continue;
    return !best.usable() || next < best ? next : best;
  }
  return best;
}

// A limit for each rank, found on what the last order left free or needed too much.
class LimitsByRank {
 public:
  LimitsByRank(Evaluator& evaluator, const Configuration& c)
      : evaluator_(evaluator), c_(c), with_room_(evaluator.common().limit_with_room), spare_(evaluator.common().spare()) {
    for (const StageCost& stage : evaluator.stages(c))
      kept_.push_back(static_cast<double>(stage.kept) * evaluator.common().facts.allocator);
  }

  // From the same limit on all ranks.
  Exact run(const char* ways, int held) {
    limits_.assign(static_cast<std::size_t>(c_.pipeline), held);
    failed_.assign(limits_.size(), c_.stages() + 1);
    Exact best;
    for (int i = 0; i < kTries && !evaluator_.common().stopped(); ++i) {
      Exact next = evaluate(ways, kScouting);
      if (next.step_time == 0) break;
      const bool changed = adjust(next);
      if (is_better(next, best, with_room_)) best = std::move(next);
      if (!changed) break;
    }
    if (!best.usable()) return best;
    ScheduleOptions whole = best.options;
    whole.erase("effort");
    Exact next = evaluator_.evaluate(c_, whole);
    return is_better(next, best, with_room_) ? next : best;
  }

 private:
  static constexpr int kTries = 6;
  static constexpr int kScouting = 25;  // per cent of the search's work

  Exact evaluate(const char* ways, int effort) {
    const bool alike = std::all_of(limits_.begin(), limits_.end(), [&](int limit) { return limit == limits_.front(); });
    return evaluator_.evaluate(c_,
                               {{"memory", alike ? std::to_string(limits_.front()) : fmt::format("{}", fmt::join(limits_, ","))},
                                {"ways", ways},
                                {"effort", std::to_string(effort)}});
  }

  // False where no limit changes.
  bool adjust(const Exact& found) {
    std::vector<double> least(limits_.size(), kInfinite), most(limits_.size(), 1);  // bytes of an activation of a rank's stages
    const Schedule& order = found.plan->schedule;
    for (std::size_t k = 0; k < order.chains.front().size(); ++k) {
      const auto r = static_cast<std::size_t>(order.stage_to_rank[static_cast<std::size_t>(order.chains.front()[k])]);
      least[r] = std::min(least[r], std::max(1.0, kept_[k]));
      most[r] = std::max(most[r], kept_[k]);
    }
    bool changed = false;
    for (std::size_t r = 0; r < limits_.size(); ++r) {
      const double left = found.room[r] - spare_;
      const int before = limits_[r], more = static_cast<int>(std::floor(left / (left < 0 ? most : least)[r]));
      if (left < 0) {
        failed_[r] = std::min(failed_[r], before);
        limits_[r] = std::max(1, before + std::min(more, -1));
      } else {
        limits_[r] = std::max(before, std::min(before + more, failed_[r] - 1));
      }
      changed |= limits_[r] != before;
    }
    return changed;
  }

  Evaluator& evaluator_;
  const Configuration& c_;
  double with_room_, spare_;          // bytes
  std::vector<double> kept_;          // bytes of an activation, by stage
  std::vector<int> limits_, failed_;  // by rank; the least that did not fit
};

}  // namespace

Exact fit_activations(Evaluator& evaluator, const Configuration& configuration) {
  Exact alike = fit_alike(evaluator, configuration);
  if (!has_option(forms()[static_cast<std::size_t>(configuration.family)].name, "ways")) return alike;
  LimitsByRank limits(evaluator, configuration);
  const int held = alike.usable() ? std::stoi(alike.options.at("memory")) : configuration.stages();
  Exact by_rank = limits.run(may_copy_activations(evaluator.scenario()) ? "both" : "recompute", held);
  return is_better(by_rank, alike, evaluator.common().limit_with_room) ? by_rank : alike;
}

}  // namespace panpipe::planner
