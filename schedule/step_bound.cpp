#include "schedule/step_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "schedule/pass_costs.hpp"
#include "schedule/search/lower_bound.hpp"
#include "schedule/search/search_order.hpp"
#include "schedule/walk.hpp"

namespace panpipe {
namespace {

// The problem that the order solves, if its stages lie as the search knows it.
std::optional<search::OrderProblem> problem_of_order(const Schedule& schedule, const PassCosts& costs, int held) {
  if (schedule.vocabulary_barriers > 0 || schedule.chains.size() != 1 || schedule.splits > 1 ||
      schedule.stages % schedule.ranks != 0 || !ways_of_stages(schedule).empty())
    return std::nullopt;
  for (int stage = 0; stage < schedule.stages; ++stage)
    if (schedule.chains[0][stage] != stage) return std::nullopt;
  search::OrderProblem problem =
      search::problem_of(schedule.ranks, schedule.microbatches, schedule.stages / schedule.ranks, held, costs);
  for (const bool loop : {false, true}) {
    problem.loop = loop;
    bool same = true;
    for (int stage = 0; stage < schedule.stages; ++stage) same &= schedule.stage_to_rank[stage] == problem.rank_of(stage);
    if (same) return problem;
  }
  return std::nullopt;
}

// A rank begins when the first forward reaches it and then has all its work before it.
double bound_by_work(const Schedule& schedule, const PassCosts& costs) {
  const auto ranks = static_cast<std::size_t>(schedule.ranks);
  std::vector<double> work(ranks, 0), head(ranks, std::numeric_limits<double>::infinity());
  for (std::size_t r = 0; r < ranks; ++r)
    for (const Action& action : schedule.order[r])
      if ((action.is_compute() && action.kind != ActionKind::R) || action.is_vocabulary()) work[r] += cost_of(action, costs);
  const Products products(schedule);
  for (const std::vector<int>& chain : schedule.chains) {
    double at = 0;
    for (std::size_t i = 0; i < chain.size(); ++i) {
      const auto rank = static_cast<std::size_t>(schedule.stage_to_rank[chain[i]]);
      if (!products.runs_forward(chain[i])) break;  // its rank may begin before: only the work counts
      if (i > 0 && schedule.stage_to_rank[chain[i - 1]] != static_cast<int>(rank)) at += costs.comm;
      head[rank] = std::min(head[rank], at);
      at += cost_of(Action{.kind = ActionKind::F, .stage = chain[i]}, costs);
    }
  }
  double bound = 0;
  for (std::size_t r = 0; r < ranks; ++r)
    bound = std::max(bound, work[r] + (work[r] > 0 && std::isfinite(head[r]) ? head[r] : 0));
  return bound;
}

std::pair<bool, bool> ways_of(const Schedule& schedule) {
  return {has_action(schedule, ActionKind::R), has_action(schedule, ActionKind::Offload)};
}

}  // namespace

StepBound step_bound(const Schedule& schedule, const PassCosts& costs, int held, std::optional<std::pair<bool, bool>> ways) {
  const std::optional<search::OrderProblem> problem = problem_of_order(schedule, costs, held);
  // A full backward that costs less than its halves: the search's bound counts the halves.
  const bool cheaper = costs.B && *costs.B < costs.I + costs.W;
  if (!problem || cheaper) return {bound_by_work(schedule, costs), false};
  const auto [recompute, offload] = ways.value_or(ways_of(schedule));
  const search::Ways priced = {recompute, offload, cost_of(ActionKind::Offload, costs), cost_of(ActionKind::Reload, costs)};
  if (recompute || offload) return {search::lower_bound(*problem, priced), true};
  return {search::lower_bound(*problem).makespan, true};
}

}  // namespace panpipe
