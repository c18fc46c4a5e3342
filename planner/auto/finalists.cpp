#include "planner/auto/finalists.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text/quantity_text.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "costmodel/plan/model_costs.hpp"
#include "costmodel/plan/most_recompute.hpp"
#include "costmodel/timeline/memory_curve.hpp"
#include "costmodel/timeline/memory_room.hpp"
#include "planner/auto/last_families.hpp"
#include "planner/candidate.hpp"

namespace panpipe::planner {
namespace {

constexpr std::size_t kMostLookedAt = 32;  // finalists whose allocations are replayed while none has room

// With the memory that answers state, not the factor that searches take. Replayed once.
TaskGraph answered_graph(Exact& exact, Evaluator& evaluator) {
  TaskGraph graph = evaluator.lowered(exact.configuration, *exact.plan);
  const CostModel& model = evaluator.model(exact.configuration);
  if (!exact.overheads) exact.overheads = replay_allocator(model.scenario(), *exact.plan, ModelCosts(model, *exact.plan));
  apply_overheads(*exact.overheads, graph);
  return graph;
}

bool copies_activations(const Schedule& schedule) {
  return std::any_of(schedule.order.begin(), schedule.order.end(), [](const std::vector<Action>& row) {
    return std::any_of(row.begin(), row.end(), [](const Action& action) { return action.kind == ActionKind::Offload; });
  });
}

Candidate candidate_of(Exact& exact, Evaluator& evaluator) {
  const CostModel& model = evaluator.model(exact.configuration);
  Candidate candidate = described(model, exact.plan, answered_graph(exact, evaluator));
  candidate.summary = summary_of(exact.configuration, exact.plan->schedule.name, model.scenario().offload,
                                 first_blocks(*exact.plan), model.scenario().recompute_scope);
  if (exact.options.count("ways") != 0 && copies_activations(exact.plan->schedule))
    candidate.summary += ", activations copied to the host";
  candidate.simulated = exact.simulated;
  if (!exact.fits)  // under contention, where it fits on idle links
    for (auto& [key, value] : candidate.metrics)
      if (key == "fits" || key == "memory_share" || key == "peak_memory_bytes") value = *figure_named(exact.simulated, key);
  if (exact.simulated_run) candidate.run = exact.simulated_run;
  const ScheduleOptions options = evaluator.request(exact.configuration, exact.options).schedule.options;
  candidate.schedule_options.assign(options.begin(), options.end());
  const RecomputeScope& scope = model.scenario().recompute_scope;
  candidate.settings = settings_of(exact, scope);
  if (is_open(model.scenario(), "recompute") && exact.configuration.recompute == Recompute::Selective && !scope.plain())
    candidate.recomputed = scope.operators;
  else if (!scope.plain() && !is_open(model.scenario(), "recompute"))  // the scenario states more than a mode, and keeps it
    std::erase_if(candidate.settings, [](const auto& setting) { return setting.first == "recompute"; });
  return candidate;
}

// The families tried on the degrees of the best plans, and the result.
std::string last_text(const Account& account, const Answer& answer) {
  std::string text = fmt::format("tried last, on the degrees of the best plans: {}", fmt::join(account.tried_last, ", "));
  text += account.gained_last > 0
              ? fmt::format("; the best of them is estimated {:.2f} % faster than the best before", 100 * account.gained_last)
              : "; none is estimated faster than the best before";
  if (answer.candidates.empty()) return text;
  const std::string& chosen = answer.candidates.front().schedule;
  if (std::find(account.tried_last.begin(), account.tried_last.end(), chosen) != account.tried_last.end())
    text += fmt::format("; the plan chosen is one of them ({}{})", chosen,
                        answer.simulation_decides && account.gained_last <= 0 ? ", by its simulated step" : "");
  return text;
}

}  // namespace

double replayed_memory(Exact& exact, Evaluator& evaluator) {
  const TaskGraph graph = answered_graph(exact, evaluator);
  const std::vector<DeviceTimeline> devices = memory_of_ranks(graph, estimate_times(graph));
  const DeviceTimeline* fullest = fullest_device(devices);
  return fullest == nullptr ? 0 : static_cast<double>(fullest->peak.base());
}

void simulate(Exact& exact, Evaluator& evaluator) {
  const TaskGraph graph = answered_graph(exact, evaluator);
  const Scenario& scenario = evaluator.model(exact.configuration).scenario();
  const Prediction prediction = predict(graph, scenario, *exact.plan, evaluator.common().options.simulate);
  exact.simulated = figures_of(prediction);
  exact.simulated_run = prediction.metrics.run;
  // Copies that others slow down leave a device later than the estimate has it.
  if (!prediction.metrics.fits && copies_activations(exact.plan->schedule)) exact.fits = false;
}

void add_finalists(std::vector<Exact>& best, Evaluator& evaluator, Answer& answer) {
  std::vector<Exact*> order;
  for (Exact& one : best) order.push_back(&one);
  std::stable_sort(order.begin(), order.end(),
                   [](const Exact* a, const Exact* b) { return a->simulated_step() < b->simulated_step(); });
  // What the allocator adds may be more than the search expected: where none of those that are shown has room, others are looked
  // at, as many whatever number is shown.
  const std::size_t shown = std::max<std::size_t>(1, evaluator.common().options.candidates);
  const bool simulated = !order.front()->simulated.empty();
  bool roomy = false;
  for (Exact* one : order) {
    const std::size_t looked_at = answer.candidates.size();
    if (looked_at >= shown && (roomy || looked_at >= kMostLookedAt || evaluator.common().stopped())) break;
    Candidate candidate = candidate_of(*one, evaluator);
    if (room_of(candidate) == Room::Enough && !roomy) {
      roomy = true;
      if (simulated && one->simulated.empty() && !evaluator.common().stopped()) {  // it is the best then
        simulate(*one, evaluator);
        candidate.simulated = one->simulated;
        if (one->simulated_run) candidate.run = one->simulated_run;
      }
    }
    answer.candidates.push_back(std::move(candidate));
  }
  order_by_room(evaluator.scenario(), answer.candidates);
  answer.candidates.resize(std::min(answer.candidates.size(), shown));
  answer.simulation_decides = !answer.candidates.front().simulated.empty();
}

void take_over(Answer more, const Scenario& scenario, const SearchOptions& options, Answer& answer) {
  answer.interrupted |= more.interrupted;
  answer.search.evaluated += more.search.evaluated;
  answer.search.pruned += more.search.pruned;
  if (more.candidates.empty()) return;
  std::vector<Candidate>& all = answer.candidates;
  for (Candidate& one : more.candidates)
    if (std::none_of(all.begin(), all.end(), [&](const Candidate& known) {
          return known.summary == one.summary && room_of(known) == room_of(one);  // cuts may differ
        }))
      all.push_back(std::move(one));
  const auto order = [](const Candidate& one) {
    return std::pair(one.simulated.empty() ? kInfinite : one.simulated.front().second, one.metrics.front().second);
  };
  std::stable_sort(all.begin(), all.end(), [&](const Candidate& a, const Candidate& b) { return order(a) < order(b); });
  order_by_room(scenario, all);
  answer.simulation_decides = !all.front().simulated.empty();
  const std::size_t shown = std::max<std::size_t>(1, options.candidates);
  const auto hardly = std::find_if(all.begin(), all.end(), [&](const Candidate& one) {
    return room_of(one) == Room::Hardly && gain_without_room(answer, one);
  });
  if (hardly != all.end() && hardly - all.begin() >= static_cast<std::ptrdiff_t>(shown) && shown > 1)
    std::rotate(all.begin() + static_cast<std::ptrdiff_t>(shown) - 1, hardly, hardly + 1);
  all.resize(std::min(all.size(), shown));
  if (all.front().metrics.front().second <= answer.search.best) return;
  answer.search.proved_optimal = false;  // what was proved is of another plan
  answer.search.proved_but_for.clear();
}

double least_overhead(const std::vector<Exact>& best) {
  double least = kInfinite;
  for (const Exact& one : best) {
    double most = 0;
    for (const AllocatorOverhead& overhead : one.overheads.value_or(std::vector<AllocatorOverhead>()))
      most = std::max(most, overhead.reserved);
    if (most > 0) least = std::min(least, most);
  }
  return least;
}

std::vector<std::string> notes_of(const Account& account, const Space& space, const Answer& answer, bool least_proved) {
  std::vector<std::string> notes = space.notes;
  const Tally& tally = *account.tally;
  notes.push_back(
      fmt::format("in closed form: {} configurations; {} above the memory limit, {} with a bound above a plan found before",
                  tally.evaluated, tally.without_room, tally.too_slow));
  if (tally.skipped_slow > 0)
    notes.push_back(fmt::format("skipped: {} whose compute alone exceeds the step of a plan that was found", tally.skipped_slow));
  if (tally.skipped_shape > 0) notes.push_back(fmt::format("not possible: {} ({})", tally.skipped_shape, tally.shape_reason));
  if (account.largest_micro > 0)
    notes.push_back(fmt::format("microbatches above {} were left out: with that one every plan is too slow or does not fit",
                                account.largest_micro));
  notes.push_back(fmt::format(
      "replayed {}, estimated {} ({} did not fit after all, {} have no order that finishes); {} excluded by their bounds",
      account.replayed, account.estimated, account.without_room, account.without_order, account.excluded));
  if (account.open > 0) notes.push_back(fmt::format("{} were not estimated: the lower bound is theirs", account.open));
  if (account.left_out > 0)
    notes.push_back(
        fmt::format("{} microbatches of some degrees were left out: smaller ones let expect too little of them, but "
                    "no bound covers them, so nothing is proved",
                    account.left_out));
  notes.emplace_back("cuts are those that balance the stages' times, moved block by block for the best plans");
  if (account.tight > 0)
    notes.push_back(
        fmt::format("{} configurations need other cuts to fit in memory; of the best of these {} fit with cuts that "
                    "give the fullest ranks less",
                    account.tight, account.fitted));
  if (account.crammed > 0)
    notes.push_back(
        fmt::format("{} configurations would be faster, but for memory: {} of them fit with recompute of some blocks, as few of "
                    "each stage as make room",
                    account.crammed, account.recomputing_some));
  if (!account.tried_last.empty()) notes.push_back(last_text(account, answer));
  if (least_proved) {
    const std::vector<std::string>& but_for = answer.search.proved_but_for;
    notes.push_back(fmt::format(
        "proved on idle links{}: nothing else that was searched in closed form is estimated faster, with the cuts that balance "
        "it; the proof does not cover other cuts, {}several stages on a single rank, {}or contention",
        answer.search.proved_optimal || !but_for.empty()
            ? ""
            : fmt::format(", for the least estimate ({})", to_text(Duration(answer.search.best))),
        account.by_stage ? "recompute of some blocks, " : "",
        account.tried_last.empty() ? "" : "families without closed forms, "));
  }
  if (account.simulated > 0)
    notes.push_back(
        fmt::format("simulated {} plans{}", account.simulated,
                    account.could_be_faster > 0
                        ? fmt::format("; {} more have a bound below the least simulated step", account.could_be_faster)
                    : account.below_simulated ? ": all that closed forms and estimates put below the least simulated step"
                                              : ""));
  if (tally.least_work > 0 && answer.search.best > 0)
    notes.push_back(
        fmt::format("with any cuts and in any order none of them takes less than {}: the work alone, shared out evenly",
                    to_text(Duration(tally.least_work))));
  return notes;
}

std::string reason_of(const Account& account, const SearchFacts& facts) {
  const Tally& tally = *account.tally;
  constexpr double kGi = 1024.0 * 1024 * 1024;
  if (tally.evaluated == 0 && tally.skipped_shape > 0) return fmt::format("no configuration is possible: {}", tally.shape_reason);
  if (tally.evaluated == 0)
    return "no configuration is possible: the degrees, the batch and the devices leave nothing to choose (pipeline x tensor x "
           "data "
           "must not exceed the devices, micro x data must divide the global batch)";
  const auto over = [&](double memory) {
    return fmt::format("{:.1f} GiB a device, {:.1f} GiB more than the limit of {:.1f} GiB", memory / kGi,
                       (memory - static_cast<double>(facts.limit)) / kGi, static_cast<double>(facts.limit) / kGi);
  };
  if (account.estimated == 0 && tally.least_memory > 0)
    return fmt::format("memory is in the way: of {} configurations the smallest needs {} ({}){}", tally.evaluated,
                       over(tally.least_memory), summary_of(tally.least_memory_of),
                       account.tight > 0 ? ", and no moved cuts were found that fit" : "");
  std::string text = fmt::format("none of the {} most promising configurations is a plan", account.estimated);
  if (account.without_room > 0)
    text += fmt::format("; {} do not fit, the smallest of them needs {}", account.without_room, over(account.least_memory));
  if (account.without_order > 0)
    text += fmt::format("; {} have no order of passes, the first because: {}", account.without_order, account.fault);
  if (account.open > 0) text += fmt::format("; {} were not tried", account.open);
  return text;
}

}  // namespace panpipe::planner
