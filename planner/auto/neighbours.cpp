#include "planner/auto/neighbours.hpp"

#include <algorithm>
#include <cmath>

#include "costmodel/plan/most_recompute.hpp"
#include "costmodel/prediction/microbatch_order.hpp"
#include "planner/auto/last_families.hpp"
#include "planner/auto/shard_groups.hpp"
#include "planner/auto/stage_recompute.hpp"

namespace panpipe::planner {
namespace {

constexpr std::size_t kTriedLast = 2;     // splits of the work among devices
constexpr std::size_t kFitted = 8;        // configurations at a time whose cuts are moved until they fit
constexpr std::size_t kMostFitted = 64;   // while nothing fits
constexpr std::size_t kMostCrammed = 24;  // configurations that recompute some of their blocks, while that helps

Exact with_cuts_moved(Evaluator& evaluator, const Exact& start) {
  return first_blocks(*start.plan).empty() ? improve_cuts(evaluator, start) : improve_recompute(evaluator, start);
}

// The allocator may reserve more than the search expected. Plans that recompute just enough blocks would then hardly fit: so
// many more recompute that they have room.
Exact roomier(Evaluator& evaluator, Exact& start) {
  if (first_blocks(*start.plan).empty()) return {};
  constexpr int kTries = 3;  // a plan with more of them is replayed anew
  double over = replayed_memory(start, evaluator) - evaluator.common().limit_with_room, more = 0;
  for (int t = 0; t < kTries && over > 0 && !evaluator.common().stopped(); ++t) {
    more += over;
    Exact next = fit_recompute(evaluator, start, more);
    if (!next.usable()) break;
    over = replayed_memory(next, evaluator) - evaluator.common().limit_with_room;
    if (over <= 0) return next;
  }
  return {};
}

}  // namespace

void Neighbours::cram(std::vector<Priced> wanted) {
  if (!common_.by_stage || common_.stopped()) return;
  const double enough = plans_.roomy_incumbent();
  const auto add = [&](double bound, double memory, Configuration configuration) {
    if (configuration.recompute != Recompute::None || bound >= enough) return;
    for (const Recompute mode : common_.space.recompute) {
      configuration.recompute = mode;
      if (mode != Recompute::None) wanted.push_back({bound, memory, configuration, false});
    }
  };
  for (const Exact& one : plans_.all()) add(one.step_time, one.memory, one.configuration);
  for (const Priced& one : plans_.too_large()) add(one.bound, one.memory, one.configuration);
  wanted = most_promising(std::move(wanted), enough);
  for (std::size_t first = 0; first < std::min(wanted.size(), kMostCrammed); first += kFitted) {
    const double before = plans_.roomy_incumbent();
    if (common_.stopped() || wanted[first].bound >= before) break;
    const std::size_t count = std::min(kFitted, wanted.size() - first);
    plans_.account.crammed += count;
    plans_.account.recomputing_some += plans_.add(
        count, [&](std::size_t i, Evaluator& evaluator) { return fit_recompute(evaluator, wanted[first + i].configuration); });
    if (std::isfinite(before) && plans_.roomy_incumbent() >= before) break;  // the most promising are no better
  }
}

void Neighbours::fit_cuts(std::vector<Priced> tight) {
  if (common_.stopped() || common_.space.stages > 0) return;
  std::copy_if(plans_.too_large().begin(), plans_.too_large().end(), std::back_inserter(tight),
               [](const Priced& one) { return one.configuration.pipeline > 1; });
  tight = most_promising(std::move(tight), plans_.incumbent());
  plans_.account.tight = tight.size();
  for (std::size_t first = 0; first < std::min(tight.size(), plans_.empty() ? kMostFitted : kFitted); first += kFitted)
    plans_.account.fitted += plans_.add(std::min(kFitted, tight.size() - first), [&](std::size_t i, Evaluator& evaluator) {
      const Priced& one = tight[first + i];
      Exact fitted = planner::fit_cuts(evaluator, one.configuration, plans_.incumbent());
      fitted.bound = one.bound;
      return fitted;
    });
}

void Neighbours::move_cuts() {
  if (plans_.empty() || common_.stopped() || !scenario_.partition.empty()) return;
  std::vector<Exact*> chosen = plans_.first_of_degrees(kImproved);
  for (std::size_t i = 0; i < std::min(kImproved, plans_.all().size()); ++i)
    if (std::find(chosen.begin(), chosen.end(), &plans_.all()[i]) == chosen.end()) chosen.push_back(&plans_.all()[i]);
  plans_.add(chosen.size(), [&](std::size_t i, Evaluator& evaluator) {
    *chosen[i] = with_cuts_moved(evaluator, *chosen[i]);
    chosen[i]->cuts_moved = true;
    return roomier(evaluator, *chosen[i]);
  });
}

void Neighbours::divide() {
  if (!divides_in_groups(scenario_)) return;
  const std::vector<Exact*> starts = plans_.first_of_degrees(kImproved);
  plans_.add(starts.size(), [&](std::size_t i, Evaluator& evaluator) { return try_shard_groups(evaluator, *starts[i]); });
}

void Neighbours::try_last() {
  if (!is_open(scenario_, "schedule") || common_.space.stages > 0) return;
  std::vector<Configuration> starts;
  for (const Exact& one : plans_.all()) {
    const Configuration& c = one.configuration;
    const auto alike = [&](const Configuration& other) { return split_of(c) == split_of(other); };
    if (starts.size() < kTriedLast && c.pipeline > 1 && std::none_of(starts.begin(), starts.end(), alike)) starts.push_back(c);
  }
  std::vector<LastTried> tried(starts.size());
  plans_.in_parallel(starts.size(),
                     [&](std::size_t i, Evaluator& evaluator) { tried[i] = try_last_families(evaluator, starts[i]); });
  const double before = plans_.incumbent();
  std::vector<std::string>& names = plans_.account.tried_last;
  for (LastTried& each : tried) {
    for (const std::string& name : each.families)
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    plans_.take(each.found);
  }
  if (plans_.incumbent() < before) plans_.account.gained_last = 1 - plans_.incumbent() / before;
}

void Neighbours::order_microbatches() {
  if (!searches_order(scenario_) || common_.stopped()) return;
  plans_.in_parallel(std::min(kImproved, plans_.all().size()), [&](std::size_t i, Evaluator& evaluator) {
    Exact& one = plans_.all()[i];
    Plan plan = *one.plan;
    panpipe::order_microbatches(scenario_, evaluator.model(one.configuration), plan);
    Exact next = evaluator.evaluate(one.configuration, plan);
    if (!next.usable() || next.step_time >= one.step_time) return;
    next.bound = one.bound;
    next.cuts_moved = one.cuts_moved;
    next.options = one.options;
    one = std::move(next);
  });
  plans_.sort();
}

void Neighbours::polish() {
  if (common_.stopped() || common_.space.stages > 0) return;
  std::vector<Exact*> fastest;
  for (Exact& one : plans_.all())
    if (!one.simulated.empty()) fastest.push_back(&one);
  std::stable_sort(fastest.begin(), fastest.end(),
                   [](const Exact* a, const Exact* b) { return a->simulated_step() < b->simulated_step(); });
  fastest.resize(std::min(fastest.size(), kImproved));
  std::erase_if(fastest, [](const Exact* one) { return one->cuts_moved; });
  std::vector<Exact> better(fastest.size());
  plans_.in_parallel(fastest.size(), [&](std::size_t i, Evaluator& evaluator) {
    better[i] = with_cuts_moved(evaluator, *fastest[i]);
    if (better[i].step_time < fastest[i]->step_time) simulate(better[i], evaluator);
  });
  for (std::size_t i = 0; i < fastest.size(); ++i) {
    if (better[i].step_time < fastest[i]->step_time) ++plans_.account.simulated;
    if (better[i].simulated_step() < fastest[i]->simulated_step()) *fastest[i] = std::move(better[i]);
  }
  plans_.sort();
}

}  // namespace panpipe::planner
