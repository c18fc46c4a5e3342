#include "study/arena/arena.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.hpp"
#include "base/parallel_for.hpp"
#include "base/text/quantity_text.hpp"
#include "schedule/communication.hpp"
#include "schedule/find_family.hpp"
#include "schedule/rolling.hpp"
#include "schedule/search/placed_search.hpp"
#include "schedule/step_bound.hpp"
#include "schedule/walk.hpp"
#include "study/arena/cluster_bench.hpp"
#include "study/arena/units.hpp"

namespace panpipe::study {
namespace {

std::string fault_text(const ScheduleProblem& problem) {
  std::string text;
  if (problem.rank >= 0) text += fmt::format("rank {}: ", problem.rank);
  if (problem.position >= 0) text += fmt::format("step {}: ", problem.position);
  return text + problem.action + (problem.action.empty() ? "" : " ") + problem.message;
}

Transfers run_semantics(std::string receives, const Schedule& schedule, const PassCosts& costs) {
  Transfers transfers{std::move(receives), {}, ""};
  for (std::size_t i = 0; i < kTransferSemantics.size(); ++i) {
    const TransferOutcome outcome = run_transfers(schedule, costs, kTransferSemantics[i]);
    transfers.finishes[i] = outcome.finishes;
    if (!outcome.finishes && transfers.deadlock.empty() && !outcome.deadlock.empty())
      transfers.deadlock = fmt::format("{}: {}", name_of(kTransferSemantics[i]), fault_text(outcome.deadlock.front()));
  }
  return transfers;
}

std::vector<Transfers> all_semantics(const Schedule& schedule, const PassCosts& costs) {
  if (has_receives(schedule)) return {run_semantics("given", schedule, costs)};
  return {run_semantics("early", add_sends_and_receives(schedule, Receives::Early), costs),
          run_semantics("late", add_sends_and_receives(schedule, Receives::Late), costs)};
}

// The results of an entrant that do not depend on the cluster.
struct Contestant {
  Judged judged;
  std::optional<Schedule> schedule;
};

double search_option(const Entrant& entrant, const char* key, double fallback) {
  const auto found = entrant.options.find(key);
  return found == entrant.options.end() ? fallback : parse_number(found->second).value.value_or(fallback);
}

constexpr double kMostSearched = 6e4;  // passes: some seconds

Schedule search_order(const Entrant& entrant, const ArenaRequest& request, const CostRatio& ratio) {
  const int stages = static_cast<int>(search_option(entrant, "stages_per_rank", 4));
  const double held = search_option(entrant, "held", request.ranks);
  if (stages < 1 || stages > 16) throw InputError("a search takes 1 to 16 stages a rank");
  const int memory = static_cast<int>(std::floor(held * stages + 1e-9));
  if (memory < stages)
    throw InputError(
        fmt::format("a rank runs all its {} stages of a microbatch before the first gradient: it holds at least 1, "
                    "not {:g}",
                    stages, held));
  PassCosts costs;
  costs.F = 1.0 / stages;
  costs.I = ratio.I / stages;
  costs.W = ratio.W / stages;
  search::OrderProblem problem = search::problem_of(request.ranks, request.microbatches, stages, memory, costs);
  problem.comm = search_option(entrant, "comm", 0);
  problem.loop = entrant.family == "loop-search";
  problem.effort = search_option(entrant, "effort", 100) / 100;
  if (problem.passes() > kMostSearched)
    throw InputError(fmt::format("{:g} passes are too many to search: at most {:g}", problem.passes(), kMostSearched));
  return search::placed_schedule(entrant.name, problem, static_cast<std::uint64_t>(search_option(entrant, "seed", 1)));
}

// A searched order, and one whose copies are placed where passes hide them, depends on the costs.
bool depends_on_costs(const Entrant& entrant) {
  return entrant.given() == nullptr && !is_search(entrant) &&
         (find_family(entrant.family)->searched() || entrant.options.count("offload") != 0);
}

// Of an order that depends on costs they are those of its stages: it is made once to see how many there are.
Schedule order_for(const Entrant& entrant, const ArenaRequest& request, const CostRatio& ratio) {
  if (entrant.order) return *entrant.order;
  if (!entrant.by_ratio.empty()) {
    const auto named = [&](const CostRatio& other) { return other.name == ratio.name; };
    const auto at = std::find_if(request.ratios.begin(), request.ratios.end(), named) - request.ratios.begin();
    return entrant.by_ratio.at(static_cast<std::size_t>(at));
  }
  if (is_search(entrant)) return search_order(entrant, request, ratio);
  const bool searched = find_family(entrant.family)->searched();  // on the line or in the V, for any costs and size
  Schedule first = make_schedule(entrant.family, request.ranks, searched ? 1 : request.microbatches, entrant.options);
  if (!depends_on_costs(entrant)) return first;
  return make_schedule(entrant.family, request.ranks, request.microbatches, entrant.options, plain_costs(first, ratio));
}

// Without a flush no step is shorter than the work of its busiest rank.
StepBound bound_of(const Played& played) {
  if (played.steps == 1) return step_bound(played.schedule, played.costs, played.most_activations);
  const std::vector<double>& busy = played.evaluation.busy;
  return {*std::max_element(busy.begin(), busy.end()) / played.steps, false};
}

void set_figures(const Schedule& schedule, const CostRatio& ratio, Judged& judged) {
  const Played played = play(schedule, ratio);
  const StepBound bound = bound_of(played);
  const Rolling rolling = rolling_of(schedule);
  judged.on_host = !ways_of_stages(schedule).empty();
  judged.stages_per_rank = stages_of_share(schedule);
  judged.weights = (judged.on_host ? 1 : static_cast<int>(schedule.chains.size())) * weight_versions(schedule);
  judged.staleness = staleness(schedule);
  judged.flushes = rolling == Rolling::None;
  judged.makespan = played.makespan;
  judged.bubble = played.bubble;
  judged.held = played.held;
  judged.held_least = played.held_least;
  judged.bound = bound.makespan;
  judged.bound_in_memory = bound.by_memory;
  // Whether an order finishes does not depend on its times.
  judged.transfers = all_semantics(played.steps > 1 ? played.schedule : schedule, plain_costs(schedule, ratio));
}

Contestant judge_plainly(const Entrant& entrant, std::size_t index, const ArenaRequest& request, const CostRatio& ratio) {
  Contestant result;
  Judged& judged = result.judged;
  judged.entrant = index;
  try {
    result.schedule = order_for(entrant, request, ratio);
  } catch (const InputError& error) {
    judged.refused = error.diagnostics().front().message;
    return result;
  }
  const Schedule& schedule = *result.schedule;
  for (const ScheduleProblem& problem : check_schedule(schedule)) judged.faults.push_back(fault_text(problem));
  if (!judged.faults.empty()) return result;
  try {
    set_figures(schedule, ratio, judged);
  } catch (const InputError& error) {
    judged.refused = error.diagnostics().front().message;
    result.schedule.reset();
  }
  return result;
}

ClusterTime time_on(const ClusterBench& bench, const Entrant& entrant, const Contestant& contestant,
                    const ArenaRequest& request) {
  if (!depends_on_costs(entrant)) return bench.time(*contestant.schedule, request.simulate);
  const Schedule there =
      make_schedule(entrant.family, request.ranks, request.microbatches, entrant.options, bench.costs(*contestant.schedule));
  if (const std::vector<ScheduleProblem> problems = check_schedule(there); !problems.empty())
    return {0, 0, "the order that is made for these costs: " + fault_text(problems.front())};
  return bench.time(there, request.simulate);
}

void check_sizes(const ArenaRequest& request) {
  for (const Entrant& entrant : request.entrants) {
    if (entrant.given() == nullptr) continue;
    const Schedule& order = *entrant.given();
    if (order.ranks != request.ranks || order.microbatches != request.microbatches)
      throw InputError(fmt::format("{} has {} ranks and {} microbatches, the arena {} and {}", entrant.name, order.ranks,
                                   order.microbatches, request.ranks, request.microbatches),
                       "an order of a file is judged at its own sizes: leave ranks and microbatches out");
  }
}

}  // namespace

Arena judge(const ArenaRequest& request) {
  check_sizes(request);
  Arena arena{request, {}};
  const std::size_t entrants = request.entrants.size(), clusters = request.clusters.size();
  std::vector<Contestant> contestants(request.ratios.size() * entrants);
  std::vector<std::unique_ptr<ClusterBench>> benches;
  for (const CostRatio& ratio : request.ratios)
    for (const std::string& cluster : request.clusters)
      benches.push_back(std::make_unique<ClusterBench>(cluster, ratio, request.ranks, request.microbatches));
  parallel_for(contestants.size(), request.threads, [&](std::size_t i, std::size_t) {
    const std::size_t entrant = i % entrants, round = i / entrants;
    contestants[i] = judge_plainly(request.entrants[entrant], entrant, request, request.ratios[round]);
    if (contestants[i].judged.legal()) contestants[i].judged.on.resize(clusters);
  });
  parallel_for(contestants.size() * clusters, request.threads, [&](std::size_t i, std::size_t) {
    Contestant& contestant = contestants[i / clusters];
    if (!contestant.judged.legal()) return;
    const std::size_t cluster = i % clusters, round = i / clusters / entrants;
    contestant.judged.on[cluster] =
        time_on(*benches[round * clusters + cluster], request.entrants[contestant.judged.entrant], contestant, request);
  });
  for (std::size_t round = 0; round < request.ratios.size(); ++round) {
    arena.rounds.push_back({request.ratios[round], {}});
    for (std::size_t e = 0; e < entrants; ++e) arena.rounds.back().judged.push_back(contestants[round * entrants + e].judged);
  }
  return arena;
}

namespace {

// Sums of costs differ in their last digits with the order of addition.
constexpr double kSame = 1e-9;
bool shorter(double a, double b) { return a < b * (1 - kSame); }

}  // namespace

Schedule order_of(const ArenaRequest& request, const Entrant& entrant, const CostRatio& ratio) {
  return order_for(entrant, request, ratio);
}

std::vector<std::size_t> ranking(const Arena&, const Round& round) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < round.judged.size(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const Judged &one = round.judged[a], &other = round.judged[b];
    if (one.legal() != other.legal()) return one.legal();
    if (!one.legal()) return false;
    if (shorter(one.makespan, other.makespan) || shorter(other.makespan, one.makespan)) return one.makespan < other.makespan;
    return shorter(one.held, other.held);
  });
  return order;
}

int fastest_within(const Arena& arena, const Round& round, double memory, int cluster) {
  int best = -1;
  const auto value = [&](const Judged& judged) { return cluster < 0 ? judged.makespan : judged.on[cluster].simulated_s; };
  for (const std::size_t i : ranking(arena, round)) {
    const Judged& judged = round.judged[i];
    if (!judged.legal() || judged.staleness > 0 || judged.held > memory * (1 + kSame)) continue;
    if (cluster >= 0 && !judged.on[cluster].refused.empty()) continue;
    if (best < 0 || shorter(value(judged), value(round.judged[best]))) best = static_cast<int>(i);
  }
  return best;
}

bool on_front(const Round& round, const Judged& judged) {
  if (!judged.legal() || judged.staleness > 0) return false;
  return std::none_of(round.judged.begin(), round.judged.end(), [&](const Judged& other) {
    if (!other.legal() || other.staleness > 0 || shorter(judged.makespan, other.makespan) || shorter(judged.held, other.held))
      return false;
    return shorter(other.makespan, judged.makespan) || shorter(other.held, judged.held);
  });
}

}  // namespace panpipe::study
